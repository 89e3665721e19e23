//! The prompts.

use rmcp::{
    ErrorData, RoleServer,
    model::{
        ContentBlock, GetPromptRequestParams, GetPromptResponse, GetPromptResult, PromptMessage,
        ResourceContents, Role,
    },
    service::RequestContext,
};
use serde_json::json;

use crate::{
    content::picture,
    input::{Asked, Brought, Form, Question},
    server::Shared,
};

/// Returns one of the prompts.
pub(crate) fn get(
    request: &GetPromptRequestParams,
    context: &RequestContext<RoleServer>,
    shared: &Shared,
) -> Result<GetPromptResponse, ErrorData> {
    let argument = |name: &str| {
        let arguments = request.arguments.as_ref();
        let argument = arguments.and_then(|arguments| arguments.get(name)?.as_str());
        argument.unwrap_or_default().to_owned()
    };
    let contents = match request.name.as_str() {
        "test_simple_prompt" => vec![ContentBlock::text("This is a simple prompt for testing.")],
        "test_prompt_with_arguments" => {
            let (first, second) = (argument("arg1"), argument("arg2"));
            vec![ContentBlock::text(format!(
                "Prompt with arguments: arg1='{first}', arg2='{second}'"
            ))]
        }
        "test_prompt_with_embedded_resource" => vec![
            ContentBlock::resource(ResourceContents::text(
                "A resource for testing.",
                argument("resourceUri"),
            )),
            ContentBlock::text("Please process the embedded resource above."),
        ],
        "test_prompt_with_image" => vec![
            ContentBlock::image(picture(), "image/png"),
            ContentBlock::text("Please analyze the image above."),
        ],
        "test_input_required_result_prompt" => {
            let fields = json!({"context": {"type": "string"}});
            let form = Form::of(Question::form(
                "user_context",
                "What context should the prompt use?",
                &fields,
            ));
            let brought = Brought {
                responses: request.input_responses.as_ref(),
                state: request.request_state.as_deref(),
            };
            let client = context.client_capabilities().unwrap_or_default();
            match form.go_on(&client, brought, &shared.codec)? {
                Asked::Answered(answers) => vec![ContentBlock::text(json!(answers).to_string())],
                Asked::Required(required) => return Ok(required.into()),
            }
        }
        other => {
            return Err(ErrorData::invalid_params(
                format!("there is no prompt {other}"),
                None,
            ));
        }
    };
    let messages = contents
        .into_iter()
        .map(|content| PromptMessage::new(Role::User, content));
    Ok(GetPromptResult::new(messages.collect()).into())
}
