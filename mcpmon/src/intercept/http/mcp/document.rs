//! Documents about a server that clients look for before they authorise: fetched where the server has them, and
//! rewritten so that they fit the address by which the client knows it.

use hyper::{
    Method, Response, StatusCode,
    header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, HeaderValue},
};
use mcpmon_core::rewrite::oauth;

use super::{call::Call, problem::Problem, route::Document};
use crate::intercept::http::{
    body::Outgoing,
    chunks::{Share, gather},
};

/// Longest document, bytes.
const LONGEST: usize = 256 << 10;
