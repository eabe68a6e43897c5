//! Variables that make harmless programs run something else.

use super::tables::holds;
use crate::{command::Assign, opinion::LayerVerdict};

/// Variables that programs trust.
const TRUSTED: &str = "PATH IFS ENV SHELLOPTS PS4 PS1 PS0 PROMPT_COMMAND CDPATH HOME SHELL PAGER EDITOR VISUAL BROWSER \
    FCEDIT LESSOPEN LESSCLOSE LESS LESSKEY LESSEDIT MANPAGER MANROFFOPT PROJECT MEMORIES GCONV_PATH NODE_OPTIONS NODE_PATH \
    NODE_EXTRA_CA_CERTS NODE_TLS_REJECT_UNAUTHORIZED ELECTRON_RUN_AS_NODE JAVA_TOOL_OPTIONS JAVA_OPTS _JAVA_OPTIONS \
    JDK_JAVA_OPTIONS CLASSPATH MAVEN_OPTS GRADLE_OPTS SBT_OPTS CATALINA_OPTS RUSTC RUSTC_WRAPPER \
    RUSTC_WORKSPACE_WRAPPER RUSTFLAGS RUSTDOC RUSTDOCFLAGS CARGO RUSTUP_TOOLCHAIN RUSTUP_HOME CC CXX LD AR AS CPP MAKE \
    MAKESHELL MAKEFLAGS MAKEFILES GOFLAGS GOROOT GOTOOLDIR GOPROXY GONOSUMDB GCC_EXEC_PREFIX COMPILER_PATH \
    LIBRARY_PATH CPATH C_INCLUDE_PATH TAR_OPTIONS RSYNC_RSH SUDO_ASKPASS SSH_ASKPASS SSH_AUTH_SOCK HOSTALIASES \
    LOCALDOMAIN NLSPATH LOCPATH TERMINFO TERMCAP INPUTRC FPATH ZDOTDIR HISTFILE TMPDIR EXECIGNORE GLOBIGNORE \
    POSIXLY_CORRECT AWKPATH AWKLIBPATH VIMINIT EXINIT GVIMINIT MYVIMRC VIM VIMRUNTIME OCAMLRUNPARAM \
    CAML_LD_LIBRARY_PATH TCLLIBPATH TCL_LIBRARY XDG_CONFIG_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS SYSTEMD_PAGER \
    SYSTEMD_EDITOR RIPGREP_CONFIG_PATH GREP_OPTIONS CURL_HOME WGETRC SYSTEM_WGETRC NETRC GNUPGHOME SSL_CERT_FILE \
    SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE GUILE_LOAD_PATH";

/// Prefixes of variables that programs trust.
const TRUSTED_FAMILIES: &str = "LD_ DYLD_ BASH GIT_ PYTHON PERL RUBY LUA_ PHP R_PROFILE CARGO_TARGET_ CARGO_BUILD_ \
    CARGO_ALIAS_ CARGO_HOME PIP_ npm_config_ NPM_CONFIG_ YARN_ COREPACK_ UV_ GEM_ BUNDLE_ DOCKER_ KUBE DOTNET_ \
    CORECLR_ COR_ ERL_ ELIXIR_ OPENSSL_ CGO_ CMAKE_";

/// Variables that only change the output or the amount of work of a program and name nothing to run, with their
/// harmless values. A `*` stands for any word without a path.
const HARMLESS: [(&str, &str); 6] = [
    (
        "CI NO_COLOR FORCE_COLOR CLICOLOR CLICOLOR_FORCE COLUMNS LINES TERM TZ DEBUG VERBOSE V NODE_ENV RUST_BACKTRACE \
         RUST_LIB_BACKTRACE RUST_LOG RUST_LOG_STYLE RUST_TEST_THREADS RUST_MIN_STACK CARGO_TERM_COLOR CARGO_INCREMENTAL \
         CARGO_NET_OFFLINE CARGO_RESOLVER_INCOMPATIBLE_RUST_VERSIONS TRYBUILD INSTA_UPDATE PROPTEST_CASES \
         PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONUTF8 GOOS GOARCH GOMAXPROCS GOTRACEBACK \
         CGO_ENABLED GO111MODULE GIT_TERMINAL_PROMPT GIT_OPTIONAL_LOCKS GIT_MERGE_AUTOEDIT SOURCE_DATE_EPOCH",
        "*",
    ),
    ("LANG LC_ALL", "C|POSIX|C.UTF-8|en_US.UTF-8"),
    ("CC CXX", "cc|gcc|clang|c++|g++|clang++"),
    ("GIT_EDITOR GIT_SEQUENCE_EDITOR EDITOR VISUAL", "true|:"),
    ("GIT_PAGER PAGER", "cat"),
    ("RUSTFLAGS RUSTDOCFLAGS", "-Dwarnings|-D warnings|-Awarnings|-A warnings"),
];

/// Returns true if an assignment before a program does not change what runs.
pub(crate) fn is_harmless(assign: &Assign) -> bool {
    let value = &assign.value;
    let is_word = || value.text.chars().all(|c| c.is_ascii_alphanumeric() || "_.,:+=*-".contains(c));
    let entry = HARMLESS.iter().find(|(names, _)| holds(names, &assign.name));
    let is_allowed =
        |values: &str| if values == "*" { is_word() } else { values.split('|').any(|known| known == value.text) };
    value.is_static() && value.inner.is_empty() && entry.is_some_and(|(_, values)| is_allowed(values))
}

/// Returns true if the variable can make programs run something else.
pub(crate) fn is_trusted(name: &str) -> bool {
    holds(TRUSTED, name)
        || TRUSTED_FAMILIES.split_ascii_whitespace().any(|family| name.starts_with(family))
        || name.to_ascii_lowercase().ends_with("_proxy")
        || name.ends_with("PRELOAD")
}

/// Adds a finding if programs trust the variable, or if its name is invalid.
pub(crate) fn check(name: &str, findings: &mut Vec<LayerVerdict>) {
    let name = name.trim_end_matches('+');
    let is_valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !is_valid {
        findings.push(LayerVerdict::high(format!("it sets {name:?}, which is not a variable name")));
    } else if is_trusted(name) {
        findings.push(LayerVerdict::high(format!("it sets {name}, which can make programs run other code")));
    }
}
