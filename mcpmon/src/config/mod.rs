//! YAML to [`Policy`](mcpmon_core::policy::Policy): raw mirror, compile, load.
