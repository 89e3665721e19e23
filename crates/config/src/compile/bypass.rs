//! Hosts of model APIs that agents behind the LLM proxy must not reach directly.

use std::{collections::BTreeMap, net::IpAddr};

use mcpmon_policy::{Bypass, Cidr, ModelHost, ProxyMode, RemoteHost};

use super::proxy;
use crate::raw;

/// Collects the model hosts: the proxy's providers, and the hosts and single addresses of `network.watch`. Ranges are
/// only watched, because they do not identify a model API.
pub(super) fn compile(config: &raw::Config) -> Bypass {
    let watched = config.network.watch.iter().map(of_watch);
    let providers = match config.proxy.mode {
        ProxyMode::Disabled => BTreeMap::new(),
        ProxyMode::Embedded | ProxyMode::McpOnly => proxy::urls(&config.proxy),
    };
    let models = watched
        .chain(providers.values().filter_map(|url| of_provider(url)))
        .filter_map(|model| without_proxy_port(model, config))
        .collect();
    Bypass {
        action: config.network.proxy_bypass,
        models,
    }
}

fn of_watch(watch: &raw::Watch) -> ModelHost {
    let single = |range: &Cidr| (*range == Cidr::host(range.address())).then(|| range.address());
    ModelHost {
        hosts: watch.hosts.iter().map(|host| host.0.clone()).collect(),
        addresses: watch.cidrs.iter().filter_map(|range| single(&range.0)).collect(),
        ports: watch.ports.iter().map(|port| port.0).collect(),
    }
}

/// Returns `None` if the URL is empty, or invalid, which `proxy::compile` reports.
fn of_provider(url: &str) -> Option<ModelHost> {
    let url: raw::HttpUrl = url.parse().ok()?;
    let (hosts, addresses) = match url.host() {
        RemoteHost::Name(name) => (vec![name.clone()], Vec::new()),
        RemoteHost::Address(address) => (Vec::new(), vec![*address]),
    };
    Some(ModelHost {
        hosts,
        addresses,
        ports: vec![url.port()],
    })
}

/// Removes the proxy's port from a model host that may be this host: a connection to the proxy is no bypass. Returns
/// `None` if no port is left.
fn without_proxy_port(mut model: ModelHost, config: &raw::Config) -> Option<ModelHost> {
    let listen = config.proxy.listen.0;
    let is_everywhere = listen.ip().is_unspecified();
    let is_near = |address: &IpAddr| address.is_loopback() || *address == listen.ip() || is_everywhere;
    let is_local = |name: &str| name == "localhost" || name.ends_with(".localhost");
    let may_be_it =
        model.addresses.iter().any(is_near) || model.hosts.iter().any(|name| is_local(name.as_str()));
    let had_ports = !model.ports.is_empty();
    if may_be_it {
        model.ports.retain(|port| *port != listen.port());
    }
    (!had_ports || !model.ports.is_empty()).then_some(model)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn models(text: &str) -> Vec<String> {
        let config: raw::Config = serde_json::from_str(text).expect("a configuration");
        let text = |model: ModelHost| {
            let hosts = model.hosts.iter().map(ToString::to_string);
            let addresses = model.addresses.iter().map(ToString::to_string);
            let places: Vec<String> = hosts.chain(addresses).collect();
            format!("{} {:?}", places.join(" "), model.ports)
        };
        compile(&config).models.into_iter().map(text).collect()
    }

    const NO_PROVIDERS: &str = r#""providers": {"anthropic": "", "openai": "", "gemini": "", "ollama": ""}"#;

    #[test]
    fn the_usual_providers_are_models() {
        assert_eq!(
            models("{}"),
            [
                "api.anthropic.com [443]",
                "generativelanguage.googleapis.com [443]",
                "127.0.0.1 [11434]",
                "api.openai.com [443]",
            ]
        );
    }

    #[test_case(r#"{"name": "a", "hosts": ["a.example"], "cidrs": ["192.0.2.0/24"], "ports": [443]}"# => vec!["a.example [443]"]; "names, and no range")]
    #[test_case(r#"{"name": "a", "cidrs": ["192.0.2.7", "2001:db8::7/128"]}"# => vec!["192.0.2.7 2001:db8::7 []"]; "single addresses")]
    #[test_case(r#"{"name": "a", "cidrs": ["127.0.0.1"], "ports": [8484, 11434]}"# => vec!["127.0.0.1 [11434]"]; "not where the proxy is")]
    #[test_case(r#"{"name": "a", "hosts": ["localhost"], "ports": [8484]}"# => Vec::<String>::new(); "nothing but the proxy")]
    #[test_case(r#"{"name": "a", "hosts": ["a.example"], "ports": [8484]}"# => vec!["a.example [8484]"]; "the port alone is not the proxy")]
    fn watched(entry: &str) -> Vec<String> {
        models(&format!(
            r#"{{"network": {{"watch": [{entry}]}}, "proxy": {{{NO_PROVIDERS}}}}}"#
        ))
    }
}
