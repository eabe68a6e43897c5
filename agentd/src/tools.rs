//! The tools as `tools.yaml` wants them: some shown only where they are mentioned, some never, some described
//! otherwise. What has nothing to work with is never shown, whatever it says.

use std::sync::{Arc, Mutex, PoisonError};

use agentd_core::{
    catalogue::{Catalogue, CatalogueTool, ToolLabel, ToolOrigin, ToolTier},
    ids::SessionId,
    ports::{ToolContext, Toolbox},
    tool::{AdaptedCall, FollowedLink, StartFolder, ToolCall, ToolErrorCode, ToolOutput, ToolSpec},
};
use futures_util::{FutureExt, future::BoxFuture};

use crate::config::{ToolSettings, nearest};

/// A toolbox in which `tools.yaml` decides when each tool is offered, and its description.
pub struct ConfiguredToolbox {
    inner: Arc<dyn Toolbox>,
    /// The names of tools that have nothing to work with, whatever is read again.
    idle: Vec<&'static str>,
    /// The settings, and what was made of them. Held for as long as it takes to look.
    made: Mutex<MadeCatalogue>,
}

/// A catalogue, and what it was made from.
struct MadeCatalogue {
    settings: ToolSettings,
    /// The names of tools that have nothing to work with now.
    idle: Vec<&'static str>,
    from: Arc<Catalogue>,
    catalogue: Arc<Catalogue>,
    specs: Arc<[ToolSpec]>,
}

impl MadeCatalogue {
    fn new(from: Arc<Catalogue>, settings: ToolSettings, for_good: &[&'static str], idle: Vec<&'static str>) -> Self {
        let catalogue = Arc::new(configured(&from, &settings, &[for_good, idle.as_slice()].concat()));
        let there = catalogue.tools.iter().filter(|tool| tool.label.tier != ToolTier::Off);
        let mut specs: Vec<ToolSpec> = there.map(|tool| tool.spec.clone()).collect();
        specs.dedup_by(|later, first| later.name == first.name);
        Self { settings, idle, from, catalogue, specs: specs.into() }
    }
}

impl ConfiguredToolbox {
    /// The tools of `inner` as `settings` want them, but for those that are `idle`, for good or now: they have nothing to work
    /// with.
    #[must_use]
    pub fn new(
        inner: Arc<dyn Toolbox>,
        settings: &ToolSettings,
        idle: Vec<&'static str>,
        now: Vec<&'static str>,
    ) -> Self {
        let made = Mutex::new(MadeCatalogue::new(inner.catalogue(), settings.clone(), &idle, now));
        Self { inner, idle, made }
    }

    /// Follows other settings, from the next turn on. Those tools that are `idle` have nothing to work with now.
    pub fn follow_settings(&self, settings: &ToolSettings, idle: Vec<&'static str>) {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if made.settings != *settings || made.idle != idle {
            *made = MadeCatalogue::new(Arc::clone(&made.from), settings.clone(), &self.idle, idle);
        }
    }

    /// The current tools: made anew where the tools below have changed.
    fn now<T>(&self, look: impl FnOnce(&MadeCatalogue) -> T) -> T {
        let from = self.inner.catalogue();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if !Arc::ptr_eq(&made.from, &from) {
            let settings = std::mem::take(&mut made.settings);
            let idle = std::mem::take(&mut made.idle);
            *made = MadeCatalogue::new(from, settings, &self.idle, idle);
        }
        look(&made)
    }

    /// Returns the reason if the call cannot be made. The engine checks that a model was shown the tool.
    fn refusal(&self, call: &ToolCall) -> Option<ToolOutput> {
        let name = self.inner.canonical_name(&call.name);
        let known = self.now(|made| made.specs.iter().any(|spec| spec.name == name || spec.name == call.name));
        (!known).then(|| {
            ToolOutput::error(
                ToolErrorCode::UnknownTool,
                "there is no tool of that name, or it is not enabled; use another one",
            )
        })
    }
}

impl Toolbox for ConfiguredToolbox {
    fn specs(&self) -> Arc<[ToolSpec]> {
        self.now(|made| Arc::clone(&made.specs))
    }

    fn catalogue(&self) -> Arc<Catalogue> {
        self.now(|made| Arc::clone(&made.catalogue))
    }

    fn end_session(&self, session: SessionId) -> BoxFuture<'_, ()> {
        self.inner.end_session(session)
    }

    fn canonical_name<'a>(&self, name: &'a str) -> &'a str {
        self.inner.canonical_name(name)
    }

    fn meant(&self, call: &ToolCall) -> Option<AdaptedCall> {
        self.inner.meant(call)
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

    fn follow<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<FollowedLink>> {
        self.inner.follow(context, call)
    }

    fn start<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, Option<StartFolder>> {
        self.inner.start(context, call)
    }

    fn holds_commands(&self) -> BoxFuture<'_, bool> {
        self.inner.holds_commands()
    }

    fn contains_commands(&self) -> BoxFuture<'_, bool> {
        self.inner.contains_commands()
    }

    fn call<'a>(&'a self, context: &'a ToolContext, call: &'a ToolCall) -> BoxFuture<'a, ToolOutput> {
        match self.refusal(call) {
            Some(refusal) => async { refusal }.boxed(),
            None => self.inner.call(context, call),
        }
    }
}

/// The catalogue with what the settings say, of the conversation's own tools too.
fn configured(from: &Catalogue, settings: &ToolSettings, idle: &[&str]) -> Catalogue {
    let tool = |tool: &CatalogueTool| {
        let is_idle = tool.origin == ToolOrigin::BuiltIn && idle.contains(&tool.spec.name.as_str());
        let tool = as_set(tool, settings);
        let tier = if is_idle { ToolTier::Off } else { tool.label.tier };
        CatalogueTool { label: ToolLabel { tier, ..tool.label }, ..tool }
    };
    let mut labels = from.labels.clone();
    for (name, setting) in settings {
        let label = setting.label(&labels.get(name).cloned().unwrap_or_default());
        labels.insert(name.clone(), label);
    }
    Catalogue { tools: from.tools.iter().map(tool).collect(), labels, servers: from.servers.clone() }
}

/// The tool with what the settings say of it.
fn as_set(tool: &CatalogueTool, settings: &ToolSettings) -> CatalogueTool {
    let Some(setting) = settings.get(&tool.spec.name) else { return tool.clone() };
    let description = setting.description.clone().unwrap_or_else(|| tool.spec.description.clone());
    let spec = ToolSpec { description, ..tool.spec.clone() };
    CatalogueTool { spec, label: setting.label(&tool.label), ..tool.clone() }
}

/// Settings of `tools.yaml` without effect. `configurable` are the tools that can be left out, `all` are all that there
/// are.
#[must_use]
pub fn notes(settings: &ToolSettings, configurable: &[ToolSpec], all: &[ToolSpec]) -> Vec<String> {
    let has = |specs: &[ToolSpec], name: &str| specs.iter().any(|spec| spec.name == name);
    let mut notes = Vec::new();
    for (name, setting) in settings {
        if !has(configurable, name) && !has(all, name) {
            let names = all.iter().chain(configurable).map(|spec| spec.name.as_str());
            let guess = nearest(name, names).map(|meant| format!(", did you mean `{meant}`?")).unwrap_or_default();
            notes.push(format!("tools.yaml: there is no tool `{name}`{guess}"));
        } else if !has(configurable, name) && setting.hides_or_describes() {
            notes.push(format!("tools.yaml: `{name}` belongs to every session and cannot be changed"));
        }
    }
    notes
}

#[cfg(test)]
mod tests {
    use agentd_core::tool::Effect;

    use super::*;
    use crate::config::{ToolSetting, ToolSwitch};

    fn spec(name: &str) -> ToolSpec {
        let description = format!("the {name}");
        ToolSpec { name: name.to_owned(), description, parameters: serde_json::json!({}), effect: Effect::Read }
    }

    #[test]
    fn tools_are_told_and_described_otherwise() {
        let set = |enabled| ToolSetting { enabled: Some(enabled), ..ToolSetting::default() };
        let told = ToolSetting { description: Some("look".to_owned()), is_core: true, ..ToolSetting::default() };
        let settings = ToolSettings::from([
            ("grep".to_owned(), set(ToolSwitch::WhenMentioned)),
            ("now".to_owned(), told),
            ("rm".to_owned(), set(ToolSwitch::Never)),
            ("todo_read".to_owned(), set(ToolSwitch::Never)),
        ]);
        let specs = ["grep", "now", "other", "rm"].map(spec);
        let catalogue = configured(&Catalogue::of(&specs, &ToolOrigin::BuiltIn), &settings, &[]);
        let tiers: Vec<_> = catalogue.tools.iter().map(|tool| tool.label.tier).collect();
        assert_eq!(tiers, [ToolTier::Discovered, ToolTier::Core, ToolTier::Enabled, ToolTier::Off]);
        assert_eq!(catalogue.tools[1].spec.description, "look");
        assert_eq!(catalogue.labels["todo_read"].tier, ToolTier::Off);
    }

    #[test]
    fn what_has_nothing_to_work_with_is_off_whatever_the_settings_say() {
        let always = ToolSetting { enabled: Some(ToolSwitch::Always), ..ToolSetting::default() };
        let settings = ToolSettings::from([("grep".to_owned(), always)]);
        let specs = ["grep", "now"].map(spec);
        let tiers = |origin: ToolOrigin| -> Vec<ToolTier> {
            let catalogue = configured(&Catalogue::of(&specs, &origin), &settings, &["grep"]);
            catalogue.tools.iter().map(|tool| tool.label.tier).collect()
        };
        assert_eq!(tiers(ToolOrigin::BuiltIn), [ToolTier::Off, ToolTier::Enabled]);
        let theirs = ToolOrigin::Mcp { server: "other".to_owned() };
        assert_eq!(tiers(theirs), [ToolTier::Enabled, ToolTier::Enabled], "of that name, and another tool");
    }

    #[test]
    fn what_has_no_effect_is_said() {
        let off = ToolSetting { enabled: Some(ToolSwitch::WhenMentioned), ..ToolSetting::default() };
        let settings = ["gerp", "ask_human", "grep"].map(|name| (name.to_owned(), off.clone())).into();
        let notes = notes(&settings, &[spec("grep")], &[spec("ask_human"), spec("grep")]);
        assert_eq!(
            notes,
            [
                "tools.yaml: `ask_human` belongs to every session and cannot be changed",
                "tools.yaml: there is no tool `gerp`, did you mean `grep`?",
            ]
        );
    }
}
