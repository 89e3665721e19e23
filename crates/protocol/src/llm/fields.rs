//! Members by name, as every reader finds them.

use std::borrow::Cow;

use super::ApiViolation;
use crate::decode::json::{Value, ValueKind};

/// Returns the members with these names; `None` for one that is missing or `null`.
///
/// # Errors
/// Returns an error if the value is no object, or has a name in another spelling that some readers take for one of
/// these.
pub(super) fn fields<'t, const N: usize>(
    object: Value<'t>,
    names: [&str; N],
) -> Result<[Option<Value<'t>>; N], ApiViolation> {
    if !object.is_object() {
        return Err(ApiViolation("a value is no object where one is expected"));
    }
    let picked = object
        .pick(names)
        .ok_or(ApiViolation("the name of a member is misspelled"))?;
    Ok(picked.map(|value| value.filter(|value| !value.is_null())))
}

/// Returns the decoded string; empty if there is none.
pub(super) fn text(value: Option<Value<'_>>) -> Result<Cow<'_, str>, ApiViolation> {
    value.map_or(Ok(Cow::Borrowed("")), |value| {
        value
            .string()
            .ok_or(ApiViolation("a value is no string where one is expected"))
    })
}

/// Returns a number that is an index or a count.
pub(super) fn count(value: Option<Value<'_>>) -> Result<Option<u64>, ApiViolation> {
    let read = |value: Value<'_>| value.text().parse().ok().ok_or(ApiViolation("an index is none"));
    value.map(read).transpose()
}

/// Returns the items of an array; none if there is no array.
pub(super) fn items<'t>(value: Option<Value<'t>>) -> Result<impl Iterator<Item = Value<'t>>, ApiViolation> {
    match value {
        Some(value) if value.kind() != ValueKind::Array => {
            Err(ApiViolation("a value is no array where one is expected"))
        }
        array => Ok(array.into_iter().flat_map(Value::items)),
    }
}
