//! Whether a call may run. Pure: facts in, a verdict with its reasons out.
//!
//! Four layers have opinions. The strictest of the first three wins; where none has one, the fourth decides.
//!
//! 1. `checker/`: what is known of the tool itself. Commands are taken apart by `command/`, and each part is judged.
//! 2. The global patterns of the rule files, looked for in every text of the arguments.
//! 3. What the rule files say of the tool: its patterns, and for commands the denylist.
//! 4. The defaults: what only looks may run, what changes or runs something asks where the session's settings say so.
//!
//! A person's kept rules (`grants`) turn a question into a yes, never a no; `grant_check` refuses those that make no
//! sense.
//!
//! - [`mod@file`]: the rule file as it is written; [`rules`]: the same, compiled.
//! - [`judge`]: the layers put together; `opinion`: what one layer says.

mod checker;
mod command;
pub mod file;
mod grant_check;
mod grants;
pub mod judge;
mod opinion;
pub mod rules;

use serde_json::Value;

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

/// The tool whose `command` a shell reads.
pub const SHELL_TOOL: &str = "run_bash_command";

/// The tool that reads one file: what it may not read, no other tool shows that comes upon it.
pub const READ_TOOL: &str = "read_file";

/// The name by which tools and commands know the project.
const PROJECT: &str = "/project";

/// Maximum nesting of arguments that are stored as JSON inside an event; readers of JSON commonly stop at 128.
const MAX_DEPTH: usize = 64;

/// Returns whether arguments nest no deeper than can be stored and read back.
pub fn is_shallow(args: &Value) -> bool {
    fn within(value: &Value, left: usize) -> bool {
        match value {
            Value::Array(items) => left > 0 && items.iter().all(|item| within(item, left - 1)),
            Value::Object(fields) => left > 0 && fields.values().all(|field| within(field, left - 1)),
            _ => true,
        }
    }
    within(args, MAX_DEPTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_nest_too_deep_are_known() {
        let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        assert!(is_shallow(&serde_json::from_str(&nested(64)).unwrap()));
        assert!(!is_shallow(&serde_json::from_str(&nested(65)).unwrap()));
    }
}
