//! What is known of single programs.

use std::path::Path;

use agentd_core::policy::Risk;

use super::{
    git,
    paths::{self, Place},
};
use crate::policy::{
    command::{Part, Stdin, word::Word},
    opinion::Opinion,
};

/// Programs that may end the machine, its disks or its accounts.
const RUINOUS: [&str; 49] = [
    "shutdown",
    "reboot",
    "halt",
    "poweroff",
    "init",
    "telinit",
    "mke2fs",
    "wipefs",
    "fdisk",
    "sfdisk",
    "gdisk",
    "sgdisk",
    "cfdisk",
    "parted",
    "swapon",
    "swapoff",
    "insmod",
    "rmmod",
    "modprobe",
    "kexec",
    "mount",
    "umount",
    "losetup",
    "cryptsetup",
    "lvremove",
    "vgremove",
    "pvremove",
    "dmsetup",
    "blkdiscard",
    "hdparm",
    "debugfs",
    "grub-install",
    "efibootmgr",
    "useradd",
    "userdel",
    "usermod",
    "groupadd",
    "passwd",
    "chpasswd",
    "visudo",
    "vipw",
    "setcap",
    "sysctl",
    "iptables",
    "ip6tables",
    "nft",
    "ufw",
    "pkexec",
    "chroot",
];
/// Programs that run others in ways that cannot be followed, reach other machines, or outlive the call.
const FAR_REACHING: [&str; 83] = [
    "unshare",
    "nsenter",
    "setpriv",
    "capsh",
    "systemd-run",
    "systemctl",
    "service",
    "at",
    "batch",
    "crontab",
    "killall",
    "pkill",
    "skill",
    "docker",
    "podman",
    "nerdctl",
    "buildah",
    "kubectl",
    "helm",
    "lxc",
    "lxc-attach",
    "ctr",
    "virsh",
    "vagrant",
    "tmux",
    "screen",
    "nc",
    "ncat",
    "netcat",
    "socat",
    "telnet",
    "ftp",
    "sftp",
    "scp",
    "mosh",
    "gdb",
    "lldb",
    "strace",
    "ltrace",
    "perf",
    "expect",
    "tclsh",
    "wish",
    "ed",
    "ex",
    "vi",
    "vim",
    "nvim",
    "view",
    "emacs",
    "nano",
    "pico",
    "osascript",
    "xdg-open",
    "gpg",
    "ssh-keygen",
    "ssh-add",
    "ssh-copy-id",
    "ssh-agent",
    "parallel",
    "rlwrap",
    "dbus-send",
    "gdbus",
    "busctl",
    "loginctl",
    "machinectl",
    "chattr",
    "setfacl",
    "apt",
    "apt-get",
    "dpkg",
    "rpm",
    "dnf",
    "yum",
    "pacman",
    "brew",
    "snap",
    "flatpak",
    "zypper",
    "npx",
    "bunx",
    "uvx",
    "coproc",
];
/// Builtins that change what later names mean, or that run text.
const RENAMING: [&str; 12] =
    ["alias", "unalias", "enable", "bind", "complete", "hash", "fc", "history", "source", ".", "shopt", "mapfile"];
/// Interpreters with the letters of the options behind which code stands.
const INTERPRETERS: [(&str, &str); 20] = [
    ("python", "c"),
    ("pypy", "c"),
    ("perl", "eEnpiMmIxd"),
    ("ruby", "enpirI"),
    ("node", "epr"),
    ("nodejs", "epr"),
    ("deno", ""),
    ("bun", "ep"),
    ("php", "rRBEdz"),
    ("lua", "el"),
    ("luajit", "el"),
    ("rscript", "e"),
    ("r", "e"),
    ("julia", "eEL"),
    ("groovy", "e"),
    ("scala", "e"),
    ("ghc", "e"),
    ("elixir", "e"),
    ("jshell", ""),
    ("irb", "e"),
];
/// Programs whose arguments may be code, or another program.
const RUNS_TEXT: [(&str, &[&str]); 16] = [
    ("tar", &["--ch", "--to-c", "--use", "--rsh", "--inf", "--new", "--abs", "-I", "-F", "-P", "--un"]),
    ("zip", &["-T", "-TT", "--unzip", "--test"]),
    ("rsync", &["-e", "--rsh", "--rsync-path"]),
    ("make", &["--eval", "SHELL=", "MAKEFLAGS=", "-f-", "-E"]),
    ("gmake", &["--eval", "SHELL=", "MAKEFLAGS="]),
    ("cargo", &["--config", "publish", "login", "yank", "owner"]),
    ("npm", &["exec", "x", "publish", "explore", "adduser", "login", "token", "config"]),
    ("pnpm", &["exec", "dlx", "publish", "config"]),
    ("yarn", &["exec", "dlx", "publish", "config"]),
    ("pip", &["config", "--index-url", "--extra-index-url", "--trusted-host", "-i"]),
    ("pipx", &["run"]),
    ("sort", &["--co"]),
    ("rg", &["--pre", "--hostname-bin"]),
    ("man", &["-P", "--pager", "-H", "--html"]),
    ("wget", &["--post", "--body", "-e", "--execute", "--use-askpass", "--input", "-i", "--method"]),
    ("find", &["-delete", "-fprint", "-fls", "-files0-from"]),
];
/// Options of curl that send something, or that read further options.
const CURL_SENDS: [&str; 12] = [
    "-d",
    "--data",
    "-F",
    "--form",
    "-T",
    "--upload",
    "--json",
    "-K",
    "--config",
    "--url-query",
    "file:",
    "--unix-socket",
];

/// What is known of a part's program.
pub(super) fn check(part: &Part, roots: &[&Path]) -> Option<Opinion> {
    let (program, arguments) = (part.program(), part.arguments());
    let asks = |risk, why: String| Some(Opinion::asks(risk, why));
    if RUINOUS.contains(&program) || program.starts_with("mkfs") || program.starts_with("mkswap") {
        return asks(Risk::Critical, format!("{program} can make the machine unusable"));
    }
    if FAR_REACHING.contains(&program) {
        return asks(Risk::High, format!("what {program} does reaches beyond this command"));
    }
    if RENAMING.contains(&program) {
        return Some(Opinion::unknown(format!("{program} runs text, or changes what names mean")));
    }
    if program.starts_with("ld-") || program.starts_with("ld.so") {
        return Some(Opinion::unknown("it runs a program through the loader"));
    }
    if let Some(opinion) = interpreter(part) {
        return Some(opinion);
    }
    if let Some((_, signs)) =
        RUNS_TEXT.iter().find(|(name, _)| *name == program || program.strip_prefix(name) == Some("3"))
        && let Some(sign) = arguments.iter().find_map(|word| signs.iter().find(|sign| signals(&word.text, sign)))
    {
        return asks(Risk::High, format!("{program} with {sign} runs, sends or deletes more than its name says"));
    }
    match program {
        // The first word of tar may be options without a hyphen.
        "tar"
            if arguments
                .first()
                .is_some_and(|word| !word.text.starts_with('-') && word.text.contains(['P', 'I', 'F'])) =>
        {
            asks(Risk::High, "tar may run programs or leave its folder".to_owned())
        }
        "rm" => remove(part, roots),
        "dd" | "shred" | "srm" => asks(Risk::High, format!("{program} overwrites what it is given")),
        "chmod" => {
            opens_up(arguments).then(|| Opinion::asks(Risk::High, "it gives rights to everybody, or to a whole tree"))
        }
        "chown" | "chgrp" => asks(Risk::High, "it gives files to somebody else".to_owned()),
        "kill" => arguments
            .iter()
            .any(|word| matches!(word.text.as_str(), "1" | "-1"))
            .then(|| Opinion::asks(Risk::High, "it ends more than one process")),
        "cd" | "pushd" => {
            let system = arguments.iter().any(|word| paths::place(word, roots) == Place::System);
            system.then(|| Opinion::asks(Risk::High, "it goes to a folder which the machine needs"))
        }
        "awk" | "gawk" | "mawk" | "nawk" => awk(arguments),
        "sed" | "gsed" => sed(arguments),
        "curl" => {
            let sends = arguments.iter().find(|word| CURL_SENDS.iter().any(|sign| signals(&word.text, sign)));
            sends.map(|word| {
                Opinion::asks(
                    Risk::High,
                    format!(
                        "curl with {} sends data away, or reads options from elsewhere",
                        super::bash::shortened(&word.text)
                    ),
                )
            })
        }
        "rsync" => arguments
            .iter()
            .any(|word| word.text.contains(':'))
            .then(|| Opinion::asks(Risk::High, "it copies to or from another machine")),
        "git" => git::check(arguments, roots),
        "test" | "[" | "[[" | "let" | "printf" | "declare" | "typeset" | "local" | "export" | "readonly" | "read"
        | "unset" | "expr" => {
            let hidden = arguments.iter().any(|word| word.scripts_hidden());
            hidden.then(|| Opinion::unknown(format!("{program} is given text that it may run")))
        }
        _ => None,
    }
}

/// Whether any word behind the program may be another program.
pub(in crate::policy) fn carries_others(program: &str) -> bool {
    FAR_REACHING.contains(&program)
}

/// Whether a word is that option, perhaps with its value, or a longer one that begins so.
fn signals(word: &str, sign: &str) -> bool {
    if sign.starts_with("--") || sign.ends_with(['=', ':']) || sign.len() > 2 && sign.starts_with('-') {
        return word.starts_with(sign);
    }
    match sign.strip_prefix('-') {
        // One letter may stand among others, and before its value.
        Some(letter) => {
            let cluster = word.strip_prefix('-').filter(|rest| !rest.starts_with('-')).unwrap_or_default();
            let letters = cluster.split(|c: char| !c.is_ascii_alphabetic()).next().unwrap_or_default();
            letters.contains(letter)
        }
        None => word == sign,
    }
}

impl Word {
    /// Whether its known text holds what a shell would run if it were read again.
    fn scripts_hidden(&self) -> bool {
        !self.substitutes && (self.text.contains("$(") || self.text.contains('`'))
    }
}

fn remove(part: &Part, roots: &[&Path]) -> Option<Opinion> {
    let option = |word: &&Word| word.text.starts_with('-');
    let options = part.arguments().iter().filter(option);
    let deep = options
        .clone()
        .any(|word| word.text.starts_with("--r") || (!word.text.starts_with("--") && word.text.contains(['r', 'R'])));
    let unguarded = options.clone().any(|word| word.text.starts_with("--no-p"));
    let mut targets = part.arguments().iter().filter(|word| !option(word));
    let whole = |word: &Word| {
        let bare = word.text.trim_end_matches('*').trim_end_matches('/');
        matches!(bare, "" | "." | ".." | "~" | "./." | "./")
            || bare.ends_with("/.")
            || !word.is_static()
            || matches!(paths::place(word, roots), Place::System | Place::Outside)
            || roots.iter().any(|root| Path::new(bare) == *root)
    };
    if unguarded || deep && (part.open_ended || targets.clone().any(whole)) {
        return Some(Opinion::asks(Risk::Critical, "it deletes a whole tree, or one that nobody can know beforehand"));
    }
    if deep {
        return Some(Opinion::asks(Risk::High, "it deletes folders with all that is in them"));
    }
    let many = part.open_ended || targets.any(|word| word.globs || !word.is_static());
    many.then(|| Opinion::asks(Risk::High, "it deletes files that are not named one by one"))
}

/// Rights for everybody, rights of the owner for who runs it, or a whole tree.
fn opens_up(arguments: &[Word]) -> bool {
    arguments.iter().any(|word| {
        let text = word.text.as_str();
        let octal = !text.is_empty() && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
        if octal {
            let special = text.len() > 3 && !text.starts_with('0');
            return special || text.ends_with(['2', '3', '6', '7']);
        }
        let option = text.starts_with("-R") || text.starts_with("--r");
        let (who, rights) = text.split_once(['+', '=']).unwrap_or(("", ""));
        let everybody = who.is_empty() && text.starts_with(['+', '=']) || who.contains(['a', 'o']);
        let symbolic = who.chars().all(|c| "ugoa".contains(c));
        option || symbolic && (rights.contains('s') || everybody && rights.contains('w'))
    })
}

/// Interpreters that are given code in place of a file.
fn interpreter(part: &Part) -> Option<Opinion> {
    let program = part.program().to_lowercase();
    let base = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let (_, letters) = INTERPRETERS.iter().find(|(name, _)| *name == base)?;
    let arguments = part.arguments();
    let mut file = false;
    for word in arguments {
        let text = word.text.as_str();
        if !text.starts_with('-') || text.len() == 1 {
            file = text != "-" && !matches!(text, "/dev/stdin" | "/dev/fd/0" | "/proc/self/fd/0");
            if matches!(text, "eval" | "repl") || !word.is_static() {
                return Some(Opinion::unknown(format!("{program} runs code that stands in the command")));
            }
            break;
        }
        let long = text.strip_prefix("--").unwrap_or_default();
        let inline = ["eval", "print", "run", "require", "import", "exec", "code", "loader", "experimental-loader"];
        let long_inline = !long.is_empty() && inline.iter().any(|option| long.starts_with(option));
        let cluster = !text.starts_with("--") && text[1..].contains(|c| letters.contains(c));
        // `python -m` names a module, and its letters are no options.
        if long_inline || cluster && !(matches!(base, "python" | "pypy") && text.starts_with("-m")) {
            return Some(Opinion::asks(Risk::High, format!("{program} runs code that stands in the command")));
        }
        if text == "-m" {
            return None;
        }
    }
    let fed = !file && (part.stdin != Stdin::Inherited || arguments.iter().any(|word| word.text == "-"));
    let asked = arguments.iter().any(|word| matches!(word.text.as_str(), "--version" | "-V" | "-v" | "--help" | "-h"));
    (fed && !asked).then(|| Opinion::unknown(format!("{program} runs what it reads from its standard input")))
}

fn awk(arguments: &[Word]) -> Option<Opinion> {
    let signs = ["system", "|", "getline", ">", "@load", "@include"];
    let code = arguments.iter().any(|word| {
        signs.iter().any(|sign| word.text.contains(sign))
            || matches!(word.text.as_str(), "-i" | "-l" | "-E" | "--load" | "--include" | "--exec")
    });
    code.then(|| Opinion::asks(Risk::High, "its awk program can run commands or write files"))
}

fn sed(arguments: &[Word]) -> Option<Opinion> {
    let mut scripts: Vec<&str> = Vec::new();
    let mut operands = Vec::new();
    let mut at = 0;
    while let Some(word) = arguments.get(at) {
        at += 1;
        match word.text.as_str() {
            "-e" | "--expression" => {
                scripts.extend(arguments.get(at).map(|word| word.text.as_str()));
                at += 1;
            }
            text if text.starts_with("--expression=") => scripts.push(&text["--expression=".len()..]),
            text if text.starts_with("-e") => scripts.push(&text[2..]),
            text if text.starts_with("-f") || text.starts_with("--f") => {
                return Some(Opinion::asks(Risk::High, "its sed program stands in a file"));
            }
            // Letters may stand together: the last of them may be the `e` whose script follows.
            text if text.starts_with('-') && !text.starts_with("--") && text.ends_with('e') => {
                scripts.extend(arguments.get(at).map(|word| word.text.as_str()));
                at += 1;
            }
            text if text.starts_with('-') => {}
            text => operands.push(text),
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first());
    }
    scripts
        .iter()
        .any(|script| sed_runs(script))
        .then(|| Opinion::asks(Risk::High, "its sed program can run commands or write files"))
}

/// Whether a sed program holds the commands `e`, `w` or `W`, or the same as flags of a substitution.
fn sed_runs(script: &str) -> bool {
    script.split([';', '\n', '{', '}']).any(|command| {
        let command = command
            .trim_start_matches(|c: char| c.is_ascii_digit() || matches!(c, ' ' | '\t' | ',' | '$' | '!' | '~' | '+'));
        let after_address = match command.strip_prefix('/') {
            Some(rest) => rest.rsplit_once('/').map_or("", |(_, rest)| rest.trim_start_matches([' ', '!', 'I'])),
            None => command,
        };
        [command, after_address].iter().any(|command| match command.chars().next() {
            Some('e' | 'w' | 'W') => true,
            Some('s') => {
                let Some(mark) = command.chars().nth(1) else { return false };
                let flags = command.rsplit(mark).next().unwrap_or_default();
                flags.contains(['e', 'w'])
                    && flags
                        .split_whitespace()
                        .next()
                        .is_some_and(|flags| flags.chars().all(|c| "gpiImMew0123456789".contains(c)))
            }
            _ => false,
        })
    })
}
