//! Decides whether a tool call may run. This crate performs no I/O: the caller passes facts and gets a verdict with its
//! reasons.
//!
//! There are four layers. The strictest verdict of the first three wins; if none of these has a verdict, the fourth
//! decides.
//!
//! 1. `checker/`: built-in checks. Commands are parsed by `command/`, and each part is judged.
//! 2. The global patterns in the rule files, matched against every string in the arguments.
//! 3. The rules for the tool in the rule files: its patterns and, for commands, the denylist.
//! 4. The defaults: read-only calls run; calls that change or run something require a question if the session's
//!    settings say so.
//!
//! The user's grants (`grants`) turn a question into an approval, but never override a denial. `grant_check` rejects
//! grants that could never apply.
//!
//! - [`mod@file`]: the rule file as written; [`rules`]: the compiled rules.
//! - [`judge`]: combines the layers; `opinion`: the verdict of a single layer.

mod checker;
mod command;
pub mod file;
mod grant_check;
mod grants;
pub mod judge;
mod opinion;
pub mod rules;

use serde_json::Value;

pub use agentd_core::tool::READ_TOOL;

pub use self::{
    checker::{bash::deletes, files::only_fetches, paths::holds_secrets},
    grants::for_good,
};
pub use self::{
    file::RuleFile,
    grant_check::{ForeignTools, UnfitGrant, check_grant, check_grant_of_other},
    judge::{CallContext, Check, Policy, read_tool, roots},
    rules::{RuleError, Rules},
};

/// Name of the shell tool, which runs its `command` argument.
pub const SHELL_TOOL: &str = "run_bash_command";

/// Path of the project, as tools and commands see it.
const PROJECT: &str = "/project";

/// Maximum nesting of arguments, which are stored as JSON inside an event. JSON parsers commonly stop at 128.
const MAX_DEPTH: usize = 64;

/// Returns true if the arguments are not nested too deeply to be stored and parsed again.
pub fn is_shallow(args: &Value) -> bool {
    fn within(value: &Value, levels: usize) -> bool {
        match value {
            Value::Array(items) => levels > 0 && items.iter().all(|item| within(item, levels - 1)),
            Value::Object(fields) => levels > 0 && fields.values().all(|field| within(field, levels - 1)),
            _ => true,
        }
    }
    within(args, MAX_DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_deeply_nested_arguments_are_detected() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_shallow(&serde_json::from_str(&nested(64)).unwrap()));
        assert!(!is_shallow(&serde_json::from_str(&nested(65)).unwrap()));
    }
}
