//! TokenReview: whose token is this?

use quorate_api::object::Object;
use quorate_api::status::Status;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::authenticate::jwt::{ISSUER, TokenError};
use crate::authenticate::{AuthenticateError, Authenticator};

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    token: Option<String>,
    audiences: Option<Vec<String>>,
}

pub(super) async fn answer(authenticator: &Authenticator, review: &Object) -> Result<Value, Status> {
    let spec: Spec = super::spec(review)?;
    let token = spec.token.unwrap_or_default();
    if token.is_empty() {
        return Err(Status::bad_request("token is required for TokenReview in authentication"));
    }
    let audiences = spec.audiences.filter(|all| !all.is_empty()).unwrap_or_else(|| vec![ISSUER.to_owned()]);
    match authenticator.identify_token(&token, &audiences).await {
        Ok((identity, granted)) => {
            Ok(json!({"authenticated": true, "audiences": granted, "user": super::user_info(&identity)}))
        }
        // That the store could not be asked says nothing of the token.
        Err(error @ (AuthenticateError::Store(_) | AuthenticateError::Token(TokenError::Unavailable(_)))) => {
            Err(error.status())
        }
        // Nobody knows it: there is no more to tell.
        Err(AuthenticateError::Unknown) => Ok(json!({"error": "invalid bearer token", "user": {}})),
        Err(error) => Ok(json!({"error": format!("[invalid bearer token, {error}]"), "user": {}})),
    }
}
