//! Simulates a kernel without some features, for tests: `kernel_without landlock,namespaces,filters PROGRAM
//! [ARGUMENT]…` executes the program. System calls for the listed features fail as if the features were missing or
//! forbidden.

use std::{collections::BTreeMap, os::unix::process::CommandExt as _, process::ExitCode};

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch};

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(missing), Some(program)) = (arguments.next(), arguments.next()) else { return ExitCode::FAILURE };
    for feature in missing.to_string_lossy().split(',') {
        let (calls, error) = match feature {
            "landlock" => (vec![libc::SYS_landlock_create_ruleset], libc::ENOSYS),
            "namespaces" => (vec![libc::SYS_unshare], libc::EPERM),
            // This filter must be last, because no filter can be added after it.
            "filters" => (vec![libc::SYS_seccomp], libc::ENOSYS),
            _ => return ExitCode::FAILURE,
        };
        if let Err(error) = deny(&calls, error) {
            eprintln!("{feature}: {error}");
            return ExitCode::FAILURE;
        }
    }
    let error = std::process::Command::new(program).args(arguments).exec();
    eprintln!("{error}");
    ExitCode::FAILURE
}

fn deny(calls: &[i64], error: i32) -> Result<(), Box<dyn std::error::Error>> {
    let processor = if cfg!(target_arch = "aarch64") { TargetArch::aarch64 } else { TargetArch::x86_64 };
    let rules: BTreeMap<_, _> = calls.iter().map(|call| (*call, Vec::new())).collect();
    let denied = SeccompAction::Errno(error.cast_unsigned());
    let program: BpfProgram = SeccompFilter::new(rules, SeccompAction::Allow, denied, processor)?.try_into()?;
    seccompiler::apply_filter(&program)?;
    Ok(())
}
