//! What one part of a command would do, as far as its words tell.

use std::path::Path;

use agentd_core::{guarded::GuardedNames, policy::Risk};

use super::{
    carriers, environment, files, interpreters,
    paths::{self, WordPlace},
    programs,
    tables::holds,
};
use crate::{
    command::{Part, Redirect, word::Word},
    opinion::{LayerVerdict, shortened, strictest},
};

/// Programs that change the files which they name.
const CHANGERS: &str = "rm rmdir unlink shred srm mv cp ln link install touch mkdir mkfifo mknod tee sponge truncate \
    fallocate dd chmod chown chgrp setfacl chattr rsync unzip tar patch curl wget split csplit zip gzip gunzip 7z xxd \
    openssl gtar bsdtar cpio";
/// Where programs of the system lie.
const PROGRAM_FOLDERS: [&str; 6] =
    ["/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/", "/usr/local/sbin/"];

/// The checker's opinion of a part, where it has one.
pub(crate) fn check(part: &Part, roots: &[&Path]) -> Option<LayerVerdict> {
    let mut found = part.findings.clone();
    let assigns = part.assigns.iter().filter(|assign| !environment::is_harmless(assign));
    assigns.for_each(|assign| environment::check(&assign.name, &mut found));
    found.extend(part.redirects.iter().filter_map(|redirect| redirected(redirect, roots)));
    for name in part.arguments().iter().filter(|_| declares(part.program())).filter(|word| !word.text.starts_with('-'))
    {
        environment::check(name.text.split(['=', '[']).next().unwrap_or_default(), &mut found);
    }
    if let Some(name) = set_by_option(part) {
        environment::check(name.split('[').next().unwrap_or_default(), &mut found);
    }
    if let Some(program) = part.words.first() {
        found.extend(program_word(program, roots));
        for word in &part.words {
            // Who only names files may name all of them.
            let names = matches!(part.program(), "ls" | "echo" | "stat" | "du" | "find" | "file") && word.globs;
            if if names { paths::is_secret(&word.text) } else { paths::may_be_secret(word) } {
                let shown = shortened(&word.text);
                found.push(LayerVerdict::asks(Risk::High, format!("{shown} looks like a file of secrets")));
            } else if paths::is_device(&word.text) {
                let shown = shortened(&word.text);
                found.push(LayerVerdict::asks(
                    Risk::High,
                    format!("{shown} is a device, or belongs to another process"),
                ));
            }
        }
        found.extend(programs::check(part, roots));
        found.extend(carriers::check(part));
        if holds(CHANGERS, part.program()) || interpreters::edits(part) {
            found.extend(part.arguments().iter().filter_map(|word| changed(part.program(), word, roots)));
        }
    }
    strictest(found)
}

/// Builtins that set variables by their arguments.
fn declares(program: &str) -> bool {
    matches!(
        program,
        "export"
            | "declare"
            | "typeset"
            | "local"
            | "readonly"
            | "unset"
            | "read"
            | "getopts"
            | "mapfile"
            | "readarray"
    )
}

/// The variable that an option names: `printf -v NAME`, `wait -p NAME`.
fn set_by_option(part: &Part) -> Option<&str> {
    let letter = match part.program() {
        "printf" => "-v",
        "wait" => "-p",
        _ => return None,
    };
    let at = part.arguments().iter().position(|word| word.text.starts_with(letter))?;
    match part.arguments()[at].text.strip_prefix(letter) {
        Some("") | None => part.arguments().get(at + 1).map(|word| word.text.as_str()),
        Some(name) => Some(name),
    }
}

/// A name of a program that is no plain name.
fn program_word(program: &Word, roots: &[&Path]) -> Option<LayerVerdict> {
    if !program.is_plain() {
        return Some(LayerVerdict::unknown("the name of the program is put together while it runs"));
    }
    let text = program.text.as_str();
    if text.trim() != text || text.is_empty() {
        return Some(LayerVerdict::asks(Risk::High, "the name of the program is blank"));
    }
    if text.starts_with('-') {
        return Some(LayerVerdict::unknown("the name of the program looks like an option"));
    }
    if !text.is_ascii() {
        return Some(LayerVerdict::asks(Risk::High, "the name of the program holds letters that may look like others"));
    }
    let placed = text.contains('/')
        && !PROGRAM_FOLDERS.iter().any(|folder| text.strip_prefix(folder).is_some_and(|name| !name.contains('/')));
    let odd = placed && matches!(paths::place(program, roots), WordPlace::System | WordPlace::Temporary);
    odd.then(|| {
        LayerVerdict::asks(
            Risk::High,
            format!("it runs {} from a folder where programs do not belong", shortened(text)),
        )
    })
}

fn redirected(redirect: &Redirect, roots: &[&Path]) -> Option<LayerVerdict> {
    if redirect.is_harmless() || redirect.operator.starts_with("<<") {
        return None;
    }
    let (target, text) = (&redirect.target, redirect.target.text.as_str());
    if text.starts_with("/dev/tcp/") || text.starts_with("/dev/udp/") {
        return Some(LayerVerdict::asks(Risk::Critical, "it opens a connection to another machine"));
    }
    if paths::is_secret(text) {
        return Some(LayerVerdict::asks(Risk::High, format!("{} looks like a file of secrets", shortened(text))));
    }
    if !redirect.writes() {
        return None;
    }
    if !target.is_plain() {
        return Some(LayerVerdict::unknown("it writes to a file whose name is only known at run time"));
    }
    written(target, roots).or_else(|| files::path(text, roots, &GuardedNames::default()))
}

/// Danger of writing there.
fn written(word: &Word, roots: &[&Path]) -> Option<LayerVerdict> {
    let shown = shortened(&word.text);
    match paths::place(word, roots) {
        WordPlace::System => {
            Some(LayerVerdict::asks(Risk::Critical, format!("it writes to {shown}, which the machine needs")))
        }
        WordPlace::Outside => {
            Some(LayerVerdict::asks(Risk::High, format!("it writes to {shown}, outside the session's folders")))
        }
        WordPlace::Inside | WordPlace::Temporary => None,
    }
}

/// Danger of a program that changes the files which it names.
fn changed(program: &str, word: &Word, roots: &[&Path]) -> Option<LayerVerdict> {
    let text = word.text.as_str();
    let value = match text.strip_prefix('-') {
        Some(option) => match option.split_once('=') {
            Some((_, value)) => value,
            // The value may follow its letter without a blank.
            None => option.find(['/', '~']).map(|at| &option[at..])?,
        },
        // `of=/dev/sda`
        None if program == "dd" => text.split_once('=').map_or(text, |(_, value)| value),
        None => text,
    };
    if matches!(value, "/dev/null" | "/dev/zero" | "/dev/urandom" | "/dev/stdout" | "/dev/stderr" | "/dev/stdin")
        || value.contains("://")
    {
        return None;
    }
    let part = Word { text: value.to_owned(), ..word.clone() };
    let home = value.starts_with(['~', '/']) || value.starts_with("$HOME") || value.starts_with("${HOME");
    if word.is_static() || home { written(&part, roots) } else { None }
        .or_else(|| files::path(value, roots, &GuardedNames::default()))
}
