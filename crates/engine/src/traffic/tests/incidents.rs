//! Data that is not a message.

use mcpmon_model::Side;
use test_case::test_case;

use super::*;

#[test_case(&Incident::Unparsable { cause: "x".to_owned() }, "mcp_request_judged block strict_json"; "unparsable")]
#[test_case(&Incident::HeaderMismatch { cause: "x".to_owned() }, "mcp_request_judged block header_mismatch"; "headers")]
#[test_case(&Incident::TooLong { side: Side::Server, limit: 9 }, "mcp_request_judged block max_line"; "too long")]
#[test_case(&Incident::Refused { side: Side::Client, id: RequestId::Text("a".into()), cause: "x" }, "mcp_request_judged block request_id"; "refused")]
#[test_case(&Incident::Unasked { side: Side::Server, id: RequestId::Text("a".into()) }, "mcp_request_judged block unasked_answer"; "unasked")]
#[test_case(&Incident::Noise { bytes: 9 }, "mcp_request_judged audit noise"; "noise")]
fn incidents_are_told_in_any_mode(incident: &Incident, event: &str) {
    for policy in [policy(), observing(policy())] {
        assert_eq!(told(&World::new(policy).incident(incident)), [event]);
    }
}

#[test]
fn a_flood_of_noise_is_told_in_a_few_events() {
    let mut world = World::new(policy());
    let noise = Incident::Noise { bytes: 9 };
    let told: usize = (0..1000).map(|_| world.incident(&noise).events.len()).sum();
    assert_eq!(told, 10);
}
