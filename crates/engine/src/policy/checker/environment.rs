//! Variables that make harmless programs run something else.

use agentd_core::policy::Risk;

use crate::policy::opinion::Opinion;

/// Names that programs trust.
const TRUSTED: [&str; 62] = [
    "PATH",
    "IFS",
    "ENV",
    "BASH_ENV",
    "SHELLOPTS",
    "BASHOPTS",
    "PS4",
    "PS1",
    "PS0",
    "PROMPT_COMMAND",
    "CDPATH",
    "HOME",
    "SHELL",
    "PAGER",
    "EDITOR",
    "VISUAL",
    "BROWSER",
    "LESSOPEN",
    "LESSCLOSE",
    "LESS",
    "MANPAGER",
    "PROJECT",
    "GCONV_PATH",
    "NODE_OPTIONS",
    "NODE_PATH",
    "JAVA_TOOL_OPTIONS",
    "_JAVA_OPTIONS",
    "JDK_JAVA_OPTIONS",
    "CLASSPATH",
    "MAVEN_OPTS",
    "GRADLE_OPTS",
    "RUSTC",
    "RUSTC_WRAPPER",
    "RUSTC_WORKSPACE_WRAPPER",
    "RUSTFLAGS",
    "RUSTDOC",
    "RUSTDOCFLAGS",
    "CC",
    "CXX",
    "LD",
    "AR",
    "MAKEFLAGS",
    "MAKEFILES",
    "GOFLAGS",
    "TAR_OPTIONS",
    "RSYNC_RSH",
    "SUDO_ASKPASS",
    "SSH_ASKPASS",
    "SSH_AUTH_SOCK",
    "HOSTALIASES",
    "LOCALDOMAIN",
    "NLSPATH",
    "TERMINFO",
    "TERMCAP",
    "INPUTRC",
    "FPATH",
    "ZDOTDIR",
    "HISTFILE",
    "TMPDIR",
    "http_proxy",
    "https_proxy",
    "OPENSSL_CONF",
];

/// The same, by how they begin.
const TRUSTED_FAMILIES: [&str; 22] = [
    "LD_",
    "DYLD_",
    "BASH_FUNC_",
    "GIT_",
    "PYTHON",
    "PERL",
    "RUBY",
    "LUA_",
    "PHP",
    "R_PROFILE",
    "CARGO_TARGET_",
    "CARGO_BUILD_",
    "CARGO_ALIAS_",
    "CARGO_HOME",
    "PIP_",
    "npm_config_",
    "NPM_CONFIG_",
    "UV_",
    "GEM_",
    "BUNDLE_",
    "DOCKER_",
    "KUBE",
];

/// Notes where a variable is one that programs trust.
pub(in crate::policy) fn check(name: &str, findings: &mut Vec<Opinion>) {
    let name = name.trim_end_matches('+');
    let valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !valid {
        findings.push(Opinion::asks(Risk::High, format!("it sets {name:?}, which is no name of a variable")));
    } else if TRUSTED.contains(&name)
        || TRUSTED_FAMILIES.iter().any(|family| name.starts_with(family))
        || name.ends_with("_PROXY")
        || name.ends_with("PRELOAD")
    {
        findings.push(Opinion::asks(Risk::High, format!("it sets {name}, which can make programs run something else")));
    }
}
