//! The parts of the server that are the same over every transport.

use std::sync::{Arc, Mutex, PoisonError, atomic::AtomicUsize};

use anyhow::Result;
use rmcp::{
    ErrorData, RoleServer, ServerHandler, ServiceExt as _,
    model::{
        CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestParams, CompleteResult,
        CompletionInfo, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult,
        Implementation, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
        ListSkillsResult, ListToolsResult, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
        ReadResourceRequestParams, ReadResourceResponse, RequestStateCodec, ServerCapabilities, ServerConfig,
        SetLevelRequestParams, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    },
    service::{RequestContext, SubscriptionContext},
};
use tokio::{runtime, sync::broadcast};

use crate::{lists::LISTS, prompts, resources, skills::Edition, tools::Call};

/// The time for which a list is fresh, in milliseconds: long enough that a client keeps the list.
const FRESH_MS: u64 = 60_000;
/// The number of changes that a slow listener may lag behind.
const LATE: usize = 16;

/// The state of one session; all of it is shared.
#[derive(Clone, Debug)]
pub(crate) struct Server(Arc<Shared>);

/// The state that all sessions share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) changes: broadcast::Sender<Change>,
    pub(crate) codec: RequestStateCodec,
    /// The number of slow calls that were cancelled.
    pub(crate) cancelled: AtomicUsize,
    edition: Mutex<Edition>,
}

/// A list that has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Tools,
    Prompts,
}

impl Shared {
    pub(crate) fn new() -> Self {
        Self {
            changes: broadcast::Sender::new(LATE),
            codec: RequestStateCodec::try_new(*b"a key that no secret depends upon")
                .expect("the key is long enough"),
            cancelled: AtomicUsize::new(0),
            edition: Mutex::default(),
        }
    }

    /// Returns the edition of the skill that is served.
    pub(crate) fn edition(&self) -> Edition {
        *self.edition.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets the edition of the skill that is served.
    pub(crate) fn set_edition(&self, edition: Edition) {
        *self.edition.lock().unwrap_or_else(PoisonError::into_inner) = edition;
    }
}

impl Server {
    pub(crate) const fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }
}

/// Serves one client over standard input and output.
///
/// # Errors
/// Returns an error if the client breaks the protocol.
pub fn serve_stdio() -> Result<()> {
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let server = Server::new(Arc::new(Shared::new()));
        let session = server.serve(rmcp::transport::stdio()).await?;
        session.waiting().await?;
        Ok(())
    })
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let can = ServerCapabilities::builder()
            .enable_completions()
            .enable_logging()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_skills_with_directory_read()
            .enable_tools()
            .enable_tool_list_changed()
            .build();
        ServerConfig::new(can).with_server_info(Implementation::new("conformant", "1"))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        LISTS.tools.iter().find(|tool| tool.name == name).cloned()
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let all = ListToolsResult::with_all_items(LISTS.tools.clone());
        Ok(all.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        let all = ListPromptsResult::with_all_items(LISTS.prompts.clone());
        Ok(all.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        let all = ListResourcesResult::with_all_items(LISTS.resources.clone());
        Ok(all.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        let all = ListResourceTemplatesResult::with_all_items(LISTS.resource_templates.clone());
        Ok(all.with_ttl_ms(FRESH_MS).with_cache_scope(CacheScope::Public))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let call = Call {
            request: &request,
            context: &context,
            shared: &self.0,
        };
        call.answer().await
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&request, &context, &self.0)
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        resources::read(&request.uri, self.0.edition()).map(ReadResourceResponse::from)
    }

    async fn list_skills(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        Ok(self.0.edition().list())
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        self.0.edition().get(&request.uri)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        Edition::directory(&request.uri)
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let typed = &request.argument.value;
        let words = ["paris", "park", "party"].into_iter();
        let words = words.filter(|word| word.starts_with(typed)).map(str::to_owned);
        let completion =
            CompletionInfo::new(words.collect()).map_err(|error| ErrorData::internal_error(error, None))?;
        Ok(CompleteResult::new(completion))
    }

    async fn set_level(
        &self,
        _: SetLevelRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn subscribe(
        &self,
        _: SubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn unsubscribe(
        &self,
        _: UnsubscribeRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, listener: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.0.changes.subscribe();
        loop {
            let change = tokio::select! {
                () = listener.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let sink = listener.sink();
            // The sink drops notifications that the listener did not subscribe to.
            drop(match change {
                Ok(Change::Tools) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) => sink.notify_prompt_list_changed().await,
                Err(_) => return Ok(()),
            });
        }
    }
}
