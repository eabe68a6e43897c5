//! The tools as `tools.yaml` wants them: some left out, some described otherwise.

use std::sync::Arc;

use agentd_core::{
    ports::{ToolContext, Toolbox},
    tool::{Followed, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::{FutureExt, future::BoxFuture};

use crate::config::{ToolSettings, nearest};

/// A toolbox of which only the enabled tools can be seen and called.
pub struct ConfiguredToolbox {
    inner: Arc<dyn Toolbox>,
    specs: Arc<[ToolSpec]>,
}

impl ConfiguredToolbox {
    /// The tools of `inner` that `settings` leave enabled.
    #[must_use]
    pub fn new(inner: Arc<dyn Toolbox>, settings: &ToolSettings) -> Self {
        let specs = inner.specs().iter().filter_map(|spec| configured(spec, settings)).collect();
        Self { inner, specs }
    }

    /// Why the call cannot be made, if it cannot: a model may ask for a tool that it was never shown.
    fn refusal(&self, call: &ToolCall) -> Option<ToolOutput> {
        let name = self.inner.canonical_name(&call.name);
        let known = self.specs.iter().any(|spec| spec.name == name);
        (!known).then(|| ToolOutput::error(ToolErrorCode::UnknownTool, "this tool is not enabled; use another one"))
    }
}

impl Toolbox for ConfiguredToolbox {
    fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.inner.canonical_name(name)
    }

    fn changes(&self, context: &ToolContext, call: &ToolCall) -> Option<Vec<String>> {
        self.inner.changes(context, call)
    }

    fn preview<'a>(
        &'a self,
        context: &'a ToolContext,
        call: &'a ToolCall,
    ) -> BoxFuture<'a, Result<Option<String>, ToolOutput>> {
        match self.refusal(call) {
            Some(refusal) => async { Err(refusal) }.boxed(),
            None => self.inner.preview(context, call),
        }
    }

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<Followed>> {
        self.inner.follow(context, call)
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        match self.refusal(call) {
            Some(refusal) => async { refusal }.boxed(),
            None => self.inner.call(context, call),
        }
    }
}

fn configured(spec: &ToolSpec, settings: &ToolSettings) -> Option<ToolSpec> {
    let Some(setting) = settings.get(&spec.name) else { return Some(spec.clone()) };
    let description = setting.description.clone().unwrap_or_else(|| spec.description.clone());
    setting.is_enabled().then(|| ToolSpec { description, ..spec.clone() })
}

/// What `tools.yaml` says to no effect. `configurable` are the tools that can be left out, `all` are all that there are.
#[must_use]
pub fn notes(settings: &ToolSettings, configurable: &[ToolSpec], all: &[ToolSpec]) -> Vec<String> {
    let has = |specs: &[ToolSpec], name: &str| specs.iter().any(|spec| spec.name == name);
    let mut notes = Vec::new();
    for (name, setting) in settings {
        if !has(configurable, name) && !has(all, name) {
            let names = all.iter().chain(configurable).map(|spec| spec.name.as_str());
            let guess = nearest(name, names).map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
            notes.push(format!("tools.yaml: there is no tool `{name}`{guess}"));
        } else if !has(configurable, name) && (!setting.is_enabled() || setting.description.is_some()) {
            notes.push(format!("tools.yaml: `{name}` belongs to every session and stays as it is"));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;
    use crate::config::ToolSetting;

    fn spec(name: &str) -> ToolSpec {
        let description = format!("the {name}");
        ToolSpec { name: name.to_owned(), description, parameters: serde_json::json!({}), effect: Effect::Read }
    }

    #[test]
    fn tools_are_left_out_and_described_otherwise() {
        let off = ToolSetting { enabled: Some(false), ..ToolSetting::default() };
        let told = ToolSetting { description: Some("look".to_owned()), ..ToolSetting::default() };
        let settings = ToolSettings::from([("grep".to_owned(), off), ("now".to_owned(), told)]);
        assert_eq!(configured(&spec("grep"), &settings), None);
        assert_eq!(configured(&spec("now"), &settings).unwrap().description, "look");
        assert_eq!(configured(&spec("other"), &settings), Some(spec("other")));
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let off = ToolSetting { enabled: Some(false), ..ToolSetting::default() };
        let settings = ["gerp", "ask_human", "grep"].map(|name| (name.to_owned(), off.clone())).into();
        let notes = notes(&settings, &[spec("grep")], &[spec("ask_human"), spec("grep")]);
        assert_eq!(
            notes,
            [
                "tools.yaml: `ask_human` belongs to every session and stays as it is",
                "tools.yaml: there is no tool `gerp`, did you mean `grep`?",
            ]
        );
    }
}
