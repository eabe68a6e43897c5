//! The tools of a request as they are sent. They are most of what a short one holds, and the same from step to step, and from
//! turn to turn where nothing is mentioned: so what was written last is kept.

use std::sync::{Arc, Mutex, PoisonError};

use agentd_core::tool::ToolSpec;
use serde::Serialize;
use serde_json::{
    Value,
    value::{RawValue, to_raw_value},
};

#[derive(Serialize)]
struct WireTool<'a> {
    r#type: &'static str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

/// The tools that were written last.
#[derive(Debug, Default)]
pub(super) struct WrittenTools(Mutex<Option<WrittenCall>>);

#[derive(Debug)]
struct WrittenCall {
    /// Held, so that no others can stand at its place in memory.
    specs: Arc<[ToolSpec]>,
    json: Arc<RawValue>,
}

impl WrittenTools {
    /// The tools as JSON.
    pub(super) fn of(&self, specs: &Arc<[ToolSpec]>) -> serde_json::Result<Arc<RawValue>> {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(written) = last.as_ref().filter(|written| Arc::ptr_eq(&written.specs, specs)) {
            return Ok(Arc::clone(&written.json));
        }
        let tools: Vec<WireTool<'_>> = specs.iter().map(wire_tool).collect();
        let json: Arc<RawValue> = to_raw_value(&tools)?.into();
        *last = Some(WrittenCall { specs: Arc::clone(specs), json: Arc::clone(&json) });
        Ok(json)
    }
}

fn wire_tool(spec: &ToolSpec) -> WireTool<'_> {
    let function = WireFunction { name: &spec.name, description: &spec.description, parameters: &spec.parameters };
    WireTool { r#type: "function", function }
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
        let once = written.of(&first).unwrap();
        assert!(Arc::ptr_eq(&once, &written.of(&first).unwrap()));
        let other = written.of(&second).unwrap();
        let expected =
            r#"[{"type":"function","function":{"name":"grep","description":"looks","parameters":{"type":"object"}}}]"#;
        assert_eq!(other.get(), expected);
        assert_eq!(written.of(&first).unwrap().get(), once.get());
    }
}
