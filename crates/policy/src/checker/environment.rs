//! Variables that make harmless programs run something else.

use agentd_core::policy::Risk;

use super::tables::holds;
use crate::opinion::LayerVerdict;

/// Names that programs trust.
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

/// The same, by how they begin.
const TRUSTED_FAMILIES: [&str; 32] = [
    "LD_",
    "DYLD_",
    "BASH",
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
    "YARN_",
    "COREPACK_",
    "UV_",
    "GEM_",
    "BUNDLE_",
    "DOCKER_",
    "KUBE",
    "DOTNET_",
    "CORECLR_",
    "COR_",
    "ERL_",
    "ELIXIR_",
    "OPENSSL_",
    "CGO_",
    "CMAKE_",
];

/// Notes where a variable is one that programs trust.
pub(crate) fn check(name: &str, findings: &mut Vec<LayerVerdict>) {
    let name = name.trim_end_matches('+');
    let valid = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !valid {
        findings.push(LayerVerdict::asks(Risk::High, format!("it sets {name:?}, which is not the name of a variable")));
    } else if holds(TRUSTED, name)
        || TRUSTED_FAMILIES.iter().any(|family| name.starts_with(family))
        || name.to_ascii_lowercase().ends_with("_proxy")
        || name.ends_with("PRELOAD")
    {
        findings.push(LayerVerdict::asks(
            Risk::High,
            format!("it sets {name}, which can make programs run something else"),
        ));
    }
}
