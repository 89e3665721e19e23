//! Repeated messages: on another stream, after a stream broke.

use mcpmon_model::{AnswerOutcome, ClientRequestKind, RequestId};

use super::*;

/// The answers that were judged, by what they answer.
fn told_of(message: &Message<'_>) -> Option<String> {
    let Content::Server(FromServer::Answer(answer)) = &message.content else {
        return None;
    };
    let outcome = match answer.outcome {
        AnswerOutcome::Result { result, .. } => result.as_str(),
        AnswerOutcome::Error { error, .. } => error.as_str(),
    };
    Some(format!("{:?} {outcome}", answer.to.what))
}

#[test]
fn an_answer_can_come_on_another_stream() {
    let mut scene = guarded();
    let waiting = scene.asks(call("1", "good"));
    let came = scene.answered(waiting, 200, EVENTS, "id: a_0\ndata:\n\n");
    assert_eq!(came.to_client, "id: a_0\ndata:\n\n");
    let stream = HttpResponse::to_get(LIMITS, 200, EVENTS);
    let answer = format!("id: a_1\n{}", event(&result("1", "{}")));
    assert_eq!(scene.comes(stream, [&answer]).to_client, answer);
}

#[test]
fn an_answer_that_comes_again_is_judged_again_as_what_it_was() {
    let mut judged = Vec::new();
    let mut scene = Scene::new(|message: &Message<'_>| {
        judged.extend(told_of(message));
        guard(message)
    });
    let waiting = scene.asks(call("1", "good"));
    let first = event(&result("1", r#"{"content":["first"]}"#));
    assert_eq!(scene.answered(waiting, 200, EVENTS, &first).to_client, first);
    // The same id, asked and answered again, is remembered as what it was last.
    let waiting = scene.asks(request("1", "resources/read", r#"{"uri":"file:///a"}"#));
    scene.answered(waiting, 200, EVENTS, &event(&result("1", r#"{"contents":[]}"#)));
    let again = event(&result("1", r#"{"contents":["evil"]}"#));
    let came = scene.comes(HttpResponse::to_get(LIMITS, 200, EVENTS), [&again]);
    assert!(
        came.to_client.contains("Content of resource 'file:///a' blocked"),
        "{came:?}"
    );
    assert_eq!(judged.len(), 3, "{judged:?}");
    let read = ClientRequestKind::Read {
        uri: "file:///a".into(),
    };
    assert!(judged[2].starts_with(&format!("{read:?}")));
}

#[test]
fn only_so_many_are_remembered() {
    let mut scene = allowed();
    for id in 0..300 {
        let id = id.to_string();
        let asked = scene.asks(call(&id, "good"));
        scene.answered(asked, 200, JSON, &result(&id, "{}"));
    }
    let mut again = |id: &str| {
        let stream = HttpResponse::to_get(LIMITS, 200, EVENTS);
        scene.comes(stream, [&event(&result(id, "{}"))]).incidents
    };
    assert_eq!(again("299"), []);
    let id = RequestId::Number("0".into());
    assert_eq!(
        again("0"),
        [Incident::Unasked {
            side: Side::Server,
            id
        }]
    );
}

#[test]
fn what_the_server_asks_again_is_asked_again() {
    let mut scene = guarded();
    let mut asks = |message: &str| {
        let ask = event(&request(
            "1",
            "elicitation/create",
            &format!(r#"{{"message":"{message}"}}"#),
        ));
        scene.comes(HttpResponse::to_get(LIMITS, 200, EVENTS), [&ask])
    };
    assert!(asks("name?").to_client.contains("name?"));
    let again = asks("name?");
    assert!(again.to_client.contains("name?") && again.to_server.is_empty());
    let other = asks("evil");
    assert_eq!((other.to_client.as_str(), other.to_server.len()), (":\n\n", 1));
}

#[test]
fn what_the_server_asks_otherwise_is_refused() {
    let mut scene = allowed();
    let mut asks = |method: &str| {
        let ask = event(&request("1", method, "{}"));
        scene.comes(HttpResponse::to_get(LIMITS, 200, EVENTS), [&ask])
    };
    assert_eq!(asks("roots/list").incidents, []);
    let came = asks("sampling/createMessage");
    assert!(matches!(
        &came.incidents[..],
        [Incident::Refused {
            side: Side::Server,
            ..
        }]
    ));
    assert!(
        came.to_server[0].starts_with(r#"{"jsonrpc":"2.0","id":1,"error""#),
        "{came:?}"
    );
}

#[test]
fn whoever_left_can_come_back_for_the_answer() {
    let mut scene = guarded();
    let waiting = scene.asks(call("1", "good"));
    let mut response = HttpResponse::to_post(LIMITS, 200, EVENTS, waiting);
    response.left(&mut scene.session);
    // Its id is free, and its answer is still known.
    let stream = HttpResponse::to_get(LIMITS, 200, EVENTS);
    let came = scene.comes(stream, [&event(&result("1", "{\"a\":\"evil\"}"))]);
    assert!(
        came.to_client.contains("Result of tool 'good' blocked"),
        "{came:?}"
    );
    scene.asks(call("1", "another"));
}

#[test]
fn the_result_of_a_task_is_that_of_its_tool_in_every_session() {
    let learned = ServerKnowledge::default();
    let mut judged = Vec::new();
    let mut judge = |message: &Message<'_>| {
        judged.extend(told_of(message));
        Verdict::Allow
    };
    let mut exchange = |body: String, answer: String| {
        let mut scene = Scene {
            session: HttpSession::new(LIMITS, learned.clone()),
            judge: &mut judge,
        };
        scene.exchange(&body, JSON, &answer)
    };
    exchange(
        call("1", "slow"),
        result("1", r#"{"resultType":"task","taskId":"t1"}"#),
    );
    let get = request("1", "tasks/get", r#"{"taskId":"t1"}"#);
    exchange(
        get,
        result("1", r#"{"status":"completed","result":{"content":["x"]}}"#),
    );
    let other = request("1", "tasks/get", r#"{"taskId":"t2"}"#);
    exchange(other, result("1", r#"{"status":"working"}"#));
    let tools: Vec<bool> = judged.iter().map(|judged| judged.contains("slow")).collect();
    assert_eq!(tools, [true, true, false], "{judged:?}");
}
