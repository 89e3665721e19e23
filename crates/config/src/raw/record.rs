//! The `record` and `metrics` sections.

use std::{sync::LazyLock, time::Duration};

use mcpmon_policy::{
    section_keys,
    written::{SectionKeys, read_section},
};
use mcpmon_store::SinkSection;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, de::MapAccess};

use super::{Lapse, Size, Text};

section_keys! {
    /// The store.
    pub(crate) struct Store {
        /// Database file; empty for `/var/lib/mcpmon/mcpmon.db` (daemon) or the user's state directory.
        pub(crate) path: String = String::new(),
        /// The time for which events are kept.
        pub(crate) retention: Text<Lapse> = Text(Lapse(Duration::from_secs(30 * 86_400))),
        /// The size limit of the database; the oldest events go first.
        pub(crate) max_size: Text<Size> = Text(Size(1 << 30)),
    }
}

/// The store and its exports.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(default, deny_unknown_fields)]
pub(crate) struct Record {
    #[serde(flatten)]
    pub(crate) store: Store,
    #[serde(flatten)]
    pub(crate) sinks: SinkSection,
}

impl SectionKeys for Record {
    fn names() -> &'static [&'static str] {
        static NAMES: LazyLock<Vec<&str>> = LazyLock::new(|| [Store::names(), SinkSection::names()].concat());
        &NAMES
    }

    fn read<'de, A: MapAccess<'de>>(&mut self, key: &str, values: &mut A) -> Result<bool, A::Error> {
        Ok(self.store.read(key, values)? || self.sinks.read(key, values)?)
    }
}

impl<'de> Deserialize<'de> for Record {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        read_section(deserializer)
    }
}

/// Prometheus metrics.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Metrics {
    /// The address they are served at, such as `127.0.0.1:9484`; empty for none.
    pub(crate) listen: String,
    /// True if `listen` may be an address that other hosts reach: names of servers and rules are served to all of them.
    pub(crate) allow_remote: bool,
}
