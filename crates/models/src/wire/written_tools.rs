//! The tools of a request as they are sent. They are most of what a short one holds, and the same from step to step, and from
//! turn to turn where nothing is mentioned: so what was written last is kept.

use std::sync::{Arc, Mutex, PoisonError};

use agentd_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

/// The tools that were written last.
#[derive(Debug, Default)]
pub(crate) struct WrittenTools(Mutex<Option<WrittenCall>>);

#[derive(Debug)]
struct WrittenCall {
    /// Held, so that no others can stand at its place in memory.
    specs: Arc<[ToolSpec]>,
    json: Arc<RawValue>,
}

impl WrittenTools {
    /// The tools as JSON, each in the form of the wire.
    pub(crate) fn of<'a, T: Serialize>(
        &self,
        specs: &'a Arc<[ToolSpec]>,
        form: impl Fn(&'a ToolSpec) -> T,
    ) -> serde_json::Result<Arc<RawValue>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = last.as_ref().filter(|written| Arc::ptr_eq(&written.specs, specs)) {
            return Ok(Arc::clone(&written.json));
        }
        let tools: Vec<T> = specs.iter().map(form).collect();
        let json: Arc<RawValue> = to_raw_value(&tools)?.into();
        *last = Some(WrittenCall { specs: Arc::clone(specs), json: Arc::clone(&json) });
        Ok(json)
    }
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;

    fn tools(name: &str) -> Arc<[ToolSpec]> {
        let spec = ToolSpec {
            name: name.to_owned(),
            description: "looks".to_owned(),
            parameters: serde_json::json!({"type": "object"}),
            effect: Effect::Read,
        };
        Arc::from([spec])
    }

    #[test]
    fn tools_are_written_once_and_never_as_others() {
        let written = WrittenTools::default();
        let (first, second) = (tools("read_file"), tools("grep"));
        let of = |specs| written.of(specs, |spec| &spec.name).unwrap();
        let once = of(&first);
        assert!(Arc::ptr_eq(&once, &of(&first)));
        assert_eq!(of(&second).get(), r#"["grep"]"#);
        assert_eq!(of(&first).get(), once.get());
    }
}
