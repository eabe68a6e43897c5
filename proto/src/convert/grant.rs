//! Rules that a person keeps.

use agentd_core::grant::{Grant, GrantScope, HeldGrant};

use super::{WireError, enum_to_wire, id, mirrored, optional_moment, required, required_enum, to_moment};
use crate::v1;

mirrored!(GrantScope, "the scope of a rule", [Session, ForGood]);

impl From<&HeldGrant> for v1::Grant {
    fn from(held: &HeldGrant) -> Self {
        Self {
            rule: held.grant.rule.clone(),
            scope: enum_to_wire(held.scope()),
            session_id: held.session_id.map(|id| id.to_string()).unwrap_or_default(),
            at: held.grant.at.map(to_moment),
            by: held.grant.by.clone(),
        }
    }
}

impl TryFrom<v1::Grant> for HeldGrant {
    type Error = WireError;

    fn try_from(grant: v1::Grant) -> Result<Self, WireError> {
        let session_id = match required_enum(grant.scope)? {
            GrantScope::ForGood => None,
            GrantScope::Session => {
                let named = Some(grant.session_id).filter(|id| !id.is_empty());
                Some(id(&required(named, "the session of a rule")?)?)
            }
        };
        let at = optional_moment(grant.at, "the time of a rule")?;
        Ok(Self { session_id, grant: Grant { rule: grant.rule, at, by: grant.by } })
    }
}
