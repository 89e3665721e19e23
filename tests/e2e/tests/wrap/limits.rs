//! Limits in a running conversation.

use anyhow::Result;
use mcpmon_e2e::wrapped::Home;

#[test]
fn a_request_waits_as_long_as_it_may_and_its_answer_comes_to_nobody() -> Result<()> {
    let home = Home::new()?;
    home.configure("version: 1\nmcp: {limits: {request_timeout: 1s}}\n")?;
    // Answers the first request after the second one has come, and then the second one.
    let script = r#"
        read -r first
        read -r second
        echo '{"jsonrpc":"2.0","id":1,"result":{"late":true}}'
        echo '{"jsonrpc":"2.0","id":2,"result":{"late":false}}'
        cat > /dev/null
    "#;
    let mut wrapped = home.start(&["sh", "-c", script])?;
    wrapped.send(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#)?;
    let expired = wrapped.line()?;
    assert_eq!(
        expired,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"[mcpmon] no answer came in time"}}"#
    );
    wrapped.send(r#"{"jsonrpc":"2.0","id":2,"method":"ping"}"#)?;
    assert_eq!(
        wrapped.line()?,
        r#"{"jsonrpc":"2.0","id":2,"result":{"late":false}}"#
    );
    let (code, rest, _) = wrapped.finish()?;
    assert_eq!((code, rest.as_str()), (0, ""));
    Ok(())
}
