//! Every route, and their description: made from the same place, so that neither can lack one.

use axum::Router;
use axum::extract::DefaultBodyLimit;
use axum::middleware::from_fn_with_state;
use axum::routing::{get, post};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::auth::guard_route;
use crate::route;
use crate::server::AppState;

/// Bytes of what a request may bring along.
const BODY_BYTES_MAX: usize = 64 * 1024;

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Hansard",
        description = "The record of every AI coding session on this machine. Every request needs \
                       `Authorization: Bearer TOKEN`; every failure is a `Failure`."
    ),
    components(schemas(wire::Failure)),
    security(("token" = []))
)]
struct Api;

/// The API as OpenAPI 3.1.
pub fn description() -> String {
    let (_, mut api) = described().split_for_parts();
    let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    api.components.get_or_insert_default().add_security_scheme("token", token);
    let mut json = api.to_pretty_json().expect("a description always encodes");
    json.push('\n');
    json
}

pub(crate) fn router(app: AppState) -> Router {
    let (router, _) = described().split_for_parts();
    router
        .route(route::LOGIN, get(route::page::login))
        .route("/api/openapi.json", get(route::page::openapi))
        .route("/api/ws", get(route::live::socket))
        .route("/api/bus", get(route::live::bus_socket))
        .route("/api/bus/stream", get(route::live::bus_stream))
        .merge(export_routes())
        .fallback(route::page::page)
        .method_not_allowed_fallback(route::unknown_route)
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        // The layer that is added last runs first, also for paths that do not exist.
        .layer(from_fn_with_state(app.clone(), guard_route))
        .with_state(app)
}

/// Where exporters send to. Their bodies are larger than those of others.
fn export_routes() -> Router<AppState> {
    Router::new()
        .route("/v1/logs", post(route::telemetry::logs))
        .route("/v1/traces", post(route::telemetry::traces))
        .route("/v1/metrics", post(route::telemetry::metrics))
        .layer(DefaultBodyLimit::max(route::telemetry::EXPORT_BYTES_MAX))
}

fn described() -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(Api::openapi())
        .routes(routes!(route::health::health))
        .routes(routes!(route::health::stream_status))
        .routes(routes!(route::session::sessions))
        .routes(routes!(route::session::session))
        .routes(routes!(route::session::summary))
        .routes(routes!(route::session::recent))
        .routes(routes!(route::log::events))
        .routes(routes!(route::log::messages))
        .routes(routes!(route::live::session_stream))
        .routes(routes!(route::session::status))
        .routes(routes!(route::session::attention))
        .routes(routes!(route::session::explain))
        .routes(routes!(route::session::approvals))
        .routes(routes!(route::find::search))
        .routes(routes!(route::find::usage))
        .routes(routes!(route::overview::feed))
        .routes(routes!(route::overview::activity))
        .routes(routes!(route::overview::facets))
        .routes(routes!(route::overview::family))
        .routes(routes!(route::overview::capture))
        .routes(routes!(route::sample::import_sample))
        .routes(routes!(route::document::export))
        .routes(routes!(route::document::handoff))
        .routes(routes!(route::document::resume))
        .routes(routes!(route::preferences::preferences, route::preferences::change_preferences))
        .routes(routes!(route::artifact::artifact))
        .routes(routes!(route::artifact::picture))
}
