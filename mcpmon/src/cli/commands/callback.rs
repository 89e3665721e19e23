//! `mcpmon approvals listen`: accepts signed answers to held calls.

use std::{io, net::SocketAddr, path::PathBuf};

use clap::Args;
use mcpmon_http::CallbackListener;
use mcpmon_model::{CallAnswer, HeldCall, Timestamp};
use mcpmon_store::SigningKey;
use serde_json::{Map, Value};

use super::held_calls::object;
use crate::{
    app::{
        callback::{AnswerableCalls, reply},
        held_calls::waiting,
    },
    cli::{CliError, ErrorKind, Globals, Output, change::ChangePlace, daemon::Socket, store, time},
};

/// The address and the key of a listener for answers.
#[derive(Debug, Args)]
pub(in crate::cli) struct Listen {
    /// The loopback address to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8585")]
    listen: SocketAddr,
    /// The key of signatures: 32 bytes, as they are, in hexadecimal digits or in base64, readable by its owner alone
    #[arg(long, value_name = "FILE")]
    key_file: PathBuf,
    #[command(flatten)]
    socket: Socket,
}

/// The held calls in the store, as the user of the listener sees and answers them.
struct StoredHeldCalls<'l> {
    globals: &'l Globals,
    socket: &'l Socket,
}

impl AnswerableCalls for StoredHeldCalls<'_> {
    fn find(&self, id: &str) -> Result<Option<HeldCall>, String> {
        let reader = store::open(self.globals).map_err(|error| format!("{:#}", error.source))?;
        let held = waiting(&reader, time::now()).map_err(|error| error.to_string())?;
        Ok(held.into_iter().find(|held| held.id == id))
    }

    fn shown(&self, held: &HeldCall) -> Map<String, Value> {
        object(held, time::now())
    }

    fn answer(&self, held: &HeldCall, answer: CallAnswer) -> Result<(), String> {
        let answered = ChangePlace::find(self.globals, self.socket)
            .and_then(|place| place.answer_call(time::now(), &held.id, answer));
        match answered {
            Ok(subject) => {
                tracing::info!(held_call = held.id, subject, ?answer, "answered");
                Ok(())
            }
            Err(error) => {
                let reason = format!("{:#}", error.source);
                tracing::warn!(held_call = held.id, reason, "an answer was not taken");
                Err(reason)
            }
        }
    }
}

pub(in crate::cli) fn run(options: Listen, globals: &Globals) -> Result<(), CliError> {
    super::proxy::start_log();
    let key = SigningKey::at(&options.key_file).map_err(|error| {
        CliError::new(ErrorKind::Environment, error)
            .with_hint("make one with `(umask 077; openssl rand -hex 32 > FILE)`")
    })?;
    let listener = CallbackListener::bind(options.listen).map_err(|error| {
        let kind = match error {
            mcpmon_http::CallbackError::Reachable(_) => ErrorKind::Usage,
            mcpmon_http::CallbackError::Listen { .. } => ErrorKind::Environment,
        };
        CliError::new(kind, error)
    })?;
    let environment = |error: io::Error| CliError::new(ErrorKind::Environment, error);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(environment)?;
    {
        let (mut data, mut notes) = (io::stdout().lock(), io::stderr().lock());
        let mut output = Output::new(&mut data, &mut notes, globals);
        output.text(&[format!("listening: http://{}/approvals", listener.address())])?;
        output.flush()?;
    }
    let (globals, socket) = (globals.clone(), options.socket);
    let answer = move |post: mcpmon_http::SignedPost| {
        let questions = StoredHeldCalls {
            globals: &globals,
            socket: &socket,
        };
        let now: Timestamp = time::now();
        let answer = reply(&post, &key, now, &questions);
        if answer.status == 401 {
            tracing::warn!("a post without a valid signature was refused");
        }
        answer
    };
    runtime.block_on(listener.serve(answer)).map_err(environment)
}
