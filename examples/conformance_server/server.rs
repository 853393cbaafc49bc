//! The protocol's methods, each handed to the module that knows the answer. No answer is made here but the capabilities.

use std::borrow::Cow;
use std::sync::Arc;

use rmcp::model::*;
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use tokio::sync::broadcast::error::RecvError;

use crate::world::{Change, Era, World};
use crate::{calls, listing, prompts, resources, skills};

#[derive(Clone)]
pub struct Server {
    world: Arc<World>,
}

type Context = RequestContext<RoleServer>;

impl Server {
    pub fn new(world: Arc<World>) -> Self {
        Self { world }
    }
}

impl ServerHandler for Server {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        self.world.era.revisions()
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_resources()
            .enable_resources_list_changed()
            .enable_resources_subscribe()
            .enable_completions()
            .enable_logging();
        let capabilities = match self.world.era {
            Era::Legacy => capabilities.build(),
            Era::Modern | Era::Dual => capabilities.enable_tasks().enable_skills_with_directory_read().build(),
        };
        ServerConfig::new(capabilities)
            .with_server_info(Implementation::new("conformance-fixture", "1.0.0"))
            .with_instructions("Everything that the conformance suite calls by name.")
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        self.world.joined(context.peer);
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, subscription: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.world.changes.subscribe();
        let wanted = subscription.accepted().clone();
        loop {
            let change = tokio::select! {
                () = subscription.cancelled() => return Ok(()),
                change = changes.recv() => change,
            };
            let sink = subscription.sink();
            let told = match change {
                Ok(Change::Tools) if wanted.tools_list_changed == Some(true) => sink.notify_tool_list_changed().await,
                Ok(Change::Prompts) if wanted.prompts_list_changed == Some(true) => {
                    sink.notify_prompt_list_changed().await
                }
                Ok(_) | Err(RecvError::Lagged(_)) => continue,
                Err(RecvError::Closed) => return Ok(()),
            };
            if let Err(fault) = told {
                return Err(ErrorData::internal_error(fault.to_string(), None));
            }
        }
    }

    async fn list_tools(&self, _: Option<PaginatedRequestParams>, _: Context) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(listing::tools(&self.world)))
    }

    /// For the headers that mirror arguments.
    fn get_tool(&self, name: &str) -> Option<Tool> {
        listing::tools(&self.world).into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(&self, call: CallToolRequestParams, context: Context) -> Result<CallToolResponse, ErrorData> {
        calls::call(&self.world, call, &context).await
    }

    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListPromptsResult, ErrorData> {
        Ok(ListPromptsResult::with_all_items(prompts::list(&self.world)))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: Context,
    ) -> Result<GetPromptResponse, ErrorData> {
        prompts::get(&self.world, request, &context).await
    }

    async fn complete(&self, request: CompleteRequestParams, _: Context) -> Result<CompleteResult, ErrorData> {
        prompts::complete(&request)
    }

    async fn list_resources(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourcesResult, ErrorData> {
        Ok(ListResourcesResult::with_all_items(resources::list()))
    }

    async fn list_resource_templates(
        &self,
        _: Option<PaginatedRequestParams>,
        _: Context,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        Ok(ListResourceTemplatesResult::with_all_items(resources::templates()))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _: Context,
    ) -> Result<ReadResourceResponse, ErrorData> {
        Ok(resources::read(&request.uri)?.into())
    }

    async fn list_skills(&self, _: Option<PaginatedRequestParams>, _: Context) -> Result<ListSkillsResult, ErrorData> {
        Ok(ListSkillsResult::with_all_items(skills::list()))
    }

    async fn get_skill(&self, request: GetSkillRequestParams, _: Context) -> Result<GetSkillResult, ErrorData> {
        skills::get(&request.uri)
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        _: Context,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        skills::directory(&request.uri)
    }

    async fn subscribe(&self, request: SubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        resources::read(&request.uri).map(|_| ())
    }

    async fn unsubscribe(&self, _: UnsubscribeRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    /// The suite asks for no filter; the tools log at one level only.
    async fn set_level(&self, _: SetLevelRequestParams, _: Context) -> Result<(), ErrorData> {
        Ok(())
    }

    async fn get_task(&self, request: GetTaskParams, _: Context) -> Result<GetTaskResult, ErrorData> {
        Ok(GetTaskResult::new(self.world.tasks.get_task(&request.task_id)?))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: Context) -> Result<(), ErrorData> {
        self.world.tasks.update_task(&request.task_id, request.input_responses)
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: Context) -> Result<(), ErrorData> {
        self.world.tasks.cancel_task(&request.task_id)
    }
}
