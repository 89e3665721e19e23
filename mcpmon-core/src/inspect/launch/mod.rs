//! MCP server launches, recognised from their argument vectors.
