//! Metrics as OpenMetrics text.

use std::fmt;

use mcpmon_store::metrics::{DURATION_BOUNDS, Durations, MetricFamily, MetricKind, MetricUnit, MetricValue};
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric as _, MetricEncoder, NoLabelSet, text},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::{Registry, Unit},
};

/// Encodes metric families as text.
pub(super) fn text(families: Vec<MetricFamily>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Families(families)));
    let mut text = String::new();
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Families(Vec<MetricFamily>);

impl Collector for Families {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut present = self.0.iter().filter(|family| !family.samples.is_empty());
        present.try_for_each(|family| encode_family(&mut encoder, family))
    }
}

fn encode_family(encoder: &mut DescriptorEncoder<'_>, family: &MetricFamily) -> fmt::Result {
    let metric = &family.metric;
    let kind = match metric.kind {
        MetricKind::Counter => MetricType::Counter,
        MetricKind::Gauge => MetricType::Gauge,
        MetricKind::Histogram => MetricType::Histogram,
    };
    let unit = match metric.unit {
        MetricUnit::One => None,
        MetricUnit::Seconds => Some(Unit::Seconds),
        MetricUnit::Bytes => Some(Unit::Bytes),
    };
    let help = format!("{}.", metric.help);
    let mut encoder = encoder.encode_descriptor(metric.name, &help, unit.as_ref(), kind)?;
    for sample in &family.samples {
        let present = sample.labels.iter().filter(|(_, value)| !value.is_empty());
        let labels: Vec<(&str, &str)> = present.map(|(name, value)| (*name, value.as_str())).collect();
        let encoder = encoder.encode_family(&labels)?;
        encode_value(encoder, metric.kind, &sample.value)?;
    }
    Ok(())
}

fn encode_value(mut encoder: MetricEncoder<'_>, kind: MetricKind, value: &MetricValue) -> fmt::Result {
    match value {
        MetricValue::Durations(durations) => {
            let classes: Vec<(f64, u64)> = classes(durations).collect();
            encoder.encode_histogram::<NoLabelSet>(durations.sum, durations.count(), &classes, None)
        }
        MetricValue::Number(number) if kind == MetricKind::Counter => {
            ConstCounter::new(*number).encode(encoder)
        }
        MetricValue::Number(number) => ConstGauge::new(*number).encode(encoder),
    }
}

/// Returns each class of durations with its upper bound; that of the last class is infinite.
fn classes(durations: &Durations) -> impl Iterator<Item = (f64, u64)> {
    let bounds = DURATION_BOUNDS.into_iter().chain([f64::INFINITY]);
    bounds.zip(durations.classes)
}

#[cfg(test)]
mod tests {
    use mcpmon_store::metrics::{
        Sample,
        table::{BUILD, CALL_DURATION, CALLS, STORE_SIZE},
    };

    use super::*;

    #[test]
    fn metrics_are_text_that_a_name_cannot_break() {
        let mut durations = Durations::default();
        durations.add(0.004);
        durations.add(400.0);
        let labels = vec![("server", "a\"b\\\n".to_owned()), ("rule", String::new())];
        let families = vec![
            MetricFamily::labelled(CALLS, [(labels, 3)]),
            MetricFamily::single(STORE_SIZE, 4096),
            MetricFamily::labelled(BUILD, []),
            MetricFamily {
                metric: CALL_DURATION,
                samples: vec![Sample {
                    labels: vec![("server", "files".to_owned())],
                    value: MetricValue::Durations(durations),
                }],
            },
        ];
        insta::assert_snapshot!(text(families).expect("a string takes all"), @r#"
        # HELP mcpmon_calls Tool calls by server, verdict and the rule that decided.
        # TYPE mcpmon_calls counter
        mcpmon_calls_total{server="a\"b\\\n"} 3
        # HELP mcpmon_store_bytes Size of the store on the disk.
        # TYPE mcpmon_store_bytes gauge
        # UNIT mcpmon_store_bytes bytes
        mcpmon_store_bytes 4096
        # HELP mcpmon_call_duration_seconds Time from the judgement of a tool call to its answer.
        # TYPE mcpmon_call_duration_seconds histogram
        # UNIT mcpmon_call_duration_seconds seconds
        mcpmon_call_duration_seconds_sum{server="files"} 400.004
        mcpmon_call_duration_seconds_count{server="files"} 2
        mcpmon_call_duration_seconds_bucket{le="0.001",server="files"} 0
        mcpmon_call_duration_seconds_bucket{le="0.002",server="files"} 0
        mcpmon_call_duration_seconds_bucket{le="0.005",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="0.01",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="0.02",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="0.05",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="0.1",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="0.2",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="0.5",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="1.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="2.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="5.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="10.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="30.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="60.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="120.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="300.0",server="files"} 1
        mcpmon_call_duration_seconds_bucket{le="+Inf",server="files"} 2
        # EOF
        "#);
    }
}
