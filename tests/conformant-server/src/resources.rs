//! The resources.

use rmcp::{
    ErrorData,
    model::{CacheScope, ReadResourceResult, ResourceContents},
};
use serde_json::json;

use crate::{apps, content::picture, skills::Edition};

/// Returns the content of one of the resources.
pub(crate) fn read(uri: &str, edition: Edition) -> Result<ReadResourceResult, ErrorData> {
    let page = || apps::page(uri, edition == Edition::Second);
    if let Some(content) = edition.file(uri).or_else(page) {
        return Ok(ReadResourceResult::new(vec![content])
            .with_ttl_ms(0)
            .with_cache_scope(CacheScope::Public));
    }
    let content = match uri {
        "test://static-text" => {
            ResourceContents::text("This is the content of the static text resource.", uri)
        }
        "test://watched-resource" => ResourceContents::text("This can be watched.", uri),
        "test://static-binary" => ResourceContents::blob(picture(), uri).with_mime_type("image/png"),
        _ => {
            let id = uri
                .strip_prefix("test://template/")
                .and_then(|rest| rest.strip_suffix("/data"));
            let Some(id) = id else {
                return Err(ErrorData::resource_not_found(
                    "Resource not found",
                    Some(json!({"uri": uri})),
                ));
            };
            let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
            ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
        }
    };
    Ok(ReadResourceResult::new(vec![content])
        .with_ttl_ms(0)
        .with_cache_scope(CacheScope::Public))
}
