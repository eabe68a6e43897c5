//! Tests of the mapping of slots to models.

use std::collections::BTreeMap;

use agentd_core::{
    model::{ModelInfo, Slot},
    ports::Models,
    route::Routes,
};
use agentd_models::{ModelRouter, SlotError};
use futures_util::stream::{self, BoxStream};

use super::*;

struct Embedded(ModelInfo);

impl Model for Embedded {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream(&self, _: ModelRequest) -> BoxStream<'static, Result<ModelChunk, ModelError>> {
        stream::iter([Ok(ModelChunk::End(Finish::Stop))]).boxed()
    }
}

pub(super) fn embedded() -> Arc<dyn Model> {
    Arc::new(Embedded(ModelInfo {
        id: "built-in".to_owned(),
        wire: "embedded".to_owned(),
        context_window: 2_048,
        embedded: true,
        ..ModelInfo::default()
    }))
}

pub(super) fn router(slots: &BTreeMap<Slot, ModelConfig>) -> Result<ModelRouter, SlotError> {
    ModelRouter::with_records(slots, embedded(), Arc::default(), Routes::default())
}

fn check(filled: &[Slot], expected: [(&str, Option<Slot>); 5]) {
    let config = |slot: &Slot| {
        let mut config = ModelConfig::new(Wire::OpenAi, "http://u:pw@h/v1?key=k");
        config.id = slot.to_string();
        (*slot, config)
    };
    let router = router(&filled.iter().map(config).collect()).unwrap();
    let listed = router.list();
    let found: Vec<_> = listed.iter().map(|info| (info.model.id.as_str(), info.falls_back_to)).collect();
    assert_eq!(found, expected);
    for info in &listed {
        assert_eq!(router.get(info.slot).info(), &info.model);
        assert!(info.model.base_url.as_deref().is_none_or(|url| url == "http://h/v1"));
    }
}

#[test]
fn empty_slots_fall_back_to_the_base_model() {
    let base = Some(Slot::Base);
    let built_in = "built-in";
    check(&[], [(built_in, None), (built_in, base), (built_in, base), (built_in, base), (built_in, base)]);
    check(&[Slot::Base], [("base", None), ("base", base), ("base", base), ("base", base), ("base", base)]);
    check(&[Slot::Code], [(built_in, None), (built_in, base), (built_in, base), ("code", None), (built_in, base)]);
    check(&Slot::ALL, [("base", None), ("reasoning", None), ("vision", None), ("code", None), ("chat", None)]);
}

#[test]
fn invalid_address_is_reported_with_its_slot() {
    let slots = BTreeMap::from([(Slot::Code, ModelConfig::new(Wire::OpenAi, "localhost:8080"))]);
    let error = router(&slots).err().unwrap();
    assert_eq!(error.slot, Slot::Code);
    let source = error.source.to_string();
    assert!(source.contains("neither http nor https") && source.contains("use a URL such as"), "{source}");
}
