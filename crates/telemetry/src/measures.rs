//! Counters and histograms of turns in memory: tokens and cost, and the durations of turns, model calls and tool calls.

use std::collections::BTreeMap;

use agentd_core::{Timestamp, usage::Usage};
use agentd_trace::{ModelCallSpan, Span, SpanKind, ToolSpan, TurnTrace};

use crate::{
    names,
    otlp::{self, KeyValue},
    spans::{address, call_failure, dollars, failure, nanoseconds, seconds, tool_failure, tool_name},
};

/// Maximum number of series. Further series, for example for arbitrary names, are merged.
const MAX_SERIES: usize = 2000;

/// Histogram bounds: seconds for model and tool calls, seconds for turns, and numbers of calls.
const CALL_BOUNDS: [f64; 14] = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92];
const TURN_BOUNDS: [f64; 13] = [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 12.8, 25.6, 51.2, 102.4, 204.8, 409.6];
const COUNT_BOUNDS: [f64; 10] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0];

type Attributes = Vec<(&'static str, String)>;

/// Measurements since a start time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Measures {
    series: BTreeMap<(&'static str, Attributes), SeriesValue>,
}

#[derive(Debug, Clone, PartialEq)]
enum SeriesValue {
    Count(u64),
    Amount(f64),
    Distribution { bounds: &'static [f64], buckets: Vec<u64>, sum: f64 },
}

impl Measures {
    /// Adds a turn and its subagents' turns.
    pub fn add(&mut self, turn: &TurnTrace) {
        let mut calls = CallCounts::default();
        self.spans(turn, &turn.spans, &mut calls);
        let mut agent = vec![(names::OPERATION, names::INVOKE_AGENT.to_owned()), (names::AGENT, turn.agent.clone())];
        self.observe(names::AGENT_INFERENCE_CALLS, agent.clone(), &COUNT_BOUNDS, calls.models);
        self.observe(names::AGENT_TOOL_CALLS, agent.clone(), &COUNT_BOUNDS, calls.tools);
        agent.extend(failure(turn).map(|error| (names::ERROR, error)));
        self.observe("gen_ai.invoke_agent.duration", agent, &TURN_BOUNDS, seconds(turn.duration_ms()));
    }

    fn spans(&mut self, turn: &TurnTrace, spans: &[Span], calls: &mut CallCounts) {
        for span in spans {
            match &span.kind {
                SpanKind::ModelCall(call) => {
                    calls.models += 1.0;
                    self.call(span, call);
                }
                SpanKind::Tool(tool) => {
                    calls.tools += 1.0;
                    self.tool(turn, span, tool);
                }
                SpanKind::Subagent(work) => work.turns.iter().for_each(|turn| self.add(turn)),
                _ => {}
            }
            self.spans(turn, &span.children, calls);
        }
    }

    fn call(&mut self, span: &Span, call: &ModelCallSpan) {
        let mut attributes = model_attributes(&call.model, call.server.as_deref());
        self.add_usage(&attributes, &call.usage);
        if let Some(first) = call.first_token_ms {
            let name = "gen_ai.client.inference.time_to_first_chunk";
            self.observe(name, attributes.clone(), &CALL_BOUNDS, seconds(first));
        }
        attributes.extend(call_failure(span, call).map(|error| (names::ERROR, error.to_owned())));
        let duration = call.took_ms.unwrap_or_else(|| span.duration_ms());
        self.observe("gen_ai.client.inference.duration", attributes, &CALL_BOUNDS, seconds(duration));
    }

    fn tool(&mut self, turn: &TurnTrace, span: &Span, tool: &ToolSpan) {
        if tool.sampled != Usage::default() {
            self.add_usage(&model_attributes(&turn.model, None), &tool.sampled);
        }
        let mut attributes =
            vec![(names::OPERATION, names::EXECUTE_TOOL.to_owned()), (names::TOOL, tool_name(tool).to_owned())];
        attributes.extend(tool_failure(span, tool).map(|error| (names::ERROR, error.to_owned())));
        // The duration excludes the time of waiting for the user. A tool that never ran has a duration of 0.
        let duration = tool.duration_ms.unwrap_or_else(|| if tool.ran { span.duration_ms() } else { 0 });
        self.observe("gen_ai.execute_tool.duration", attributes, &CALL_BOUNDS, seconds(duration));
    }

    fn add_usage(&mut self, model: &Attributes, usage: &Usage) {
        let mut attributes = model.clone();
        if let Some(cost) = usage.cost_microusd {
            let empty = SeriesValue::Amount(0.0);
            if let SeriesValue::Amount(sum) = self.series("agentd.cost", attributes.clone(), empty) {
                *sum += dollars(cost);
            }
        }
        attributes.push(("gen_ai.token.modality", "unknown".to_owned()));
        for (name, tokens) in [
            ("gen_ai.client.inference.usage.input_tokens", usage.prompt_tokens),
            ("gen_ai.client.inference.usage.output_tokens", usage.completion_tokens),
            ("gen_ai.client.inference.usage.cache_read.input_tokens", usage.cached_tokens),
            ("gen_ai.client.inference.usage.cache_write.input_tokens", usage.cache_write_tokens),
            ("gen_ai.client.inference.usage.reasoning.output_tokens", usage.reasoning_tokens),
        ] {
            if tokens > 0
                && let SeriesValue::Count(sum) = self.series(name, attributes.clone(), SeriesValue::Count(0))
            {
                *sum = sum.saturating_add(tokens);
            }
        }
    }

    fn observe(&mut self, name: &'static str, attributes: Attributes, bounds: &'static [f64], value: f64) {
        let empty = SeriesValue::Distribution { bounds, buckets: vec![0; bounds.len() + 1], sum: 0.0 };
        if let SeriesValue::Distribution { bounds, buckets, sum } = self.series(name, attributes, empty) {
            *sum += value;
            let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
            if let Some(count) = buckets.get_mut(bucket) {
                *count = count.saturating_add(1);
            }
        }
    }

    fn series(&mut self, name: &'static str, attributes: Attributes, empty: SeriesValue) -> &mut SeriesValue {
        let key = (name, attributes);
        let is_new = self.series.len() >= MAX_SERIES && !self.series.contains_key(&key);
        let key = if is_new { (name, vec![("otel.metric.overflow", "true".to_owned())]) } else { key };
        self.series.entry(key).or_insert(empty)
    }

    /// Encodes all measurements since `start` as metrics.
    pub fn encode(&self, start: Timestamp, now: Timestamp, temporality: otlp::Temporality) -> Vec<otlp::Metric> {
        let (start_ns, time_ns) = (nanoseconds(start), nanoseconds(now).max(nanoseconds(start)));
        let mut metrics: Vec<otlp::Metric> = Vec::new();
        for ((name, attributes), series_value) in &self.series {
            let attributes: Vec<KeyValue> =
                attributes.iter().map(|(key, value)| KeyValue::new(key, value.as_str())).collect();
            if metrics.last().is_none_or(|metric| metric.name != *name) {
                metrics.push(empty_metric(name, series_value, temporality));
            }
            let point =
                |value| otlp::NumberPoint { start_ns, time_ns, value: Some(value), attributes: attributes.clone() };
            match (metrics.last_mut().and_then(|metric| metric.data.as_mut()), series_value) {
                (Some(otlp::MetricData::Sum(sum)), SeriesValue::Count(count)) => {
                    sum.points.push(point(otlp::Number::Int(i64::try_from(*count).unwrap_or(i64::MAX))));
                }
                (Some(otlp::MetricData::Sum(sum)), SeriesValue::Amount(amount)) => {
                    sum.points.push(point(otlp::Number::Double(*amount)));
                }
                (Some(otlp::MetricData::Histogram(histogram)), SeriesValue::Distribution { bounds, buckets, sum }) => {
                    let (count, sum, buckets) = (buckets.iter().sum(), Some(*sum), buckets.clone());
                    let bounds = bounds.to_vec();
                    let part = otlp::HistogramPoint { start_ns, time_ns, count, sum, buckets, bounds, attributes };
                    histogram.points.push(part);
                }
                _ => {}
            }
        }
        metrics
    }
}

/// Numbers of model calls and tool calls made by the turn itself.
#[derive(Default)]
struct CallCounts {
    models: f64,
    tools: f64,
}

fn model_attributes(model: &str, server: Option<&str>) -> Attributes {
    let (host, _) = address(server.unwrap_or_default());
    vec![
        (names::OPERATION, names::CHAT.to_owned()),
        (names::PROVIDER, names::provider(host).to_owned()),
        (names::REQUEST_MODEL, model.to_owned()),
    ]
}

fn empty_metric(name: &str, series_value: &SeriesValue, temporality: otlp::Temporality) -> otlp::Metric {
    let temporality = temporality.into();
    let sum = otlp::MetricData::Sum(otlp::Sum { points: Vec::new(), temporality, is_monotonic: true });
    let distribution = otlp::MetricData::Histogram(otlp::Histogram { points: Vec::new(), temporality });
    let (unit, data) = match series_value {
        SeriesValue::Count(_) => ("{token}", sum),
        SeriesValue::Amount(_) => ("USD", sum),
        SeriesValue::Distribution { .. } if [names::AGENT_INFERENCE_CALLS, names::AGENT_TOOL_CALLS].contains(&name) => {
            ("{call}", distribution)
        }
        SeriesValue::Distribution { .. } => ("s", distribution),
    };
    otlp::Metric { name: name.to_owned(), unit: unit.to_owned(), data: Some(data) }
}
