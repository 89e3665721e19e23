//! The app (MCP Apps): a page that the client shows, and the requests that the page makes to the client.

use rmcp::model::{MetaObject, ResourceContents};
use serde_json::json;

const VIEW: &str = "ui://clock/view.html";
const PAGE: &str = "<!doctype html><title>Clock</title><p id=\"time\"></p>\n";

/// Returns the page if `uri` is its address.
pub(crate) fn page(uri: &str, is_changed: bool) -> Option<ResourceContents> {
    if uri != VIEW {
        return None;
    }
    let mut connect = vec!["https://time.example"];
    if is_changed {
        connect.push("https://elsewhere.example");
    }
    let ui = json!({"csp": {"connectDomains": connect}, "permissions": {"geolocation": {}}});
    let mut meta = MetaObject::new();
    meta.insert("ui".to_owned(), ui);
    Some(
        ResourceContents::text(PAGE, uri)
            .with_mime_type("text/html;profile=mcp-app")
            .with_meta(meta),
    )
}
