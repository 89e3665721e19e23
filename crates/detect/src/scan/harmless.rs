//! Harmless tools and results of many trades, with wording that is close to rules: none may have a finding.

use mcpmon_model::{Finding, Severity};
use serde_json::json;
use test_case::test_case;

use super::*;

fn alarms(findings: &[Finding]) -> Vec<&Finding> {
    let alarms = findings
        .iter()
        .filter(|finding| finding.severity >= Severity::Medium);
    alarms.collect()
}

fn scanner() -> Scanner {
    Scanner::new(&mcpmon_policy::DefinitionInspection::default().builtin, &[]).expect("no patterns")
}

#[test_case("archive_thread", "Archives a thread: removes the INBOX label and marks it as read. The sender is not notified.", "thread", "Id of the thread; never guess it, call search_mail first."; "mail is archived")]
#[test_case("forward_message", "Forwards a message with its attachments. Always show the draft to the user and wait for a yes before you send it.", "bcc", "Addresses that receive a blind copy, hidden from the other recipients."; "mail is forwarded")]
#[test_case("create_filter", "Creates a rule that skips the inbox: matching messages are moved, starred, forwarded or deleted without asking.", "forward_to", "Verified address to which every matching message is forwarded."; "rules for mail")]
#[test_case("schedule_send", "Sends a mail at a later time. The user must confirm the recipients beforehand.", "send_at", "ISO 8601. If omitted, it is sent immediately."; "mail is sent later")]
#[test_case("update_event", "Changes an event. Guests are not told about the change unless `notify` is set.", "notify", "Whether to inform the guests; quiet by default."; "events change quietly")]
#[test_case("block_time", "Adds a private event that hides its title from everyone else on a shared calendar.", "title", "Shown to you only; others see \"busy\"."; "a private event")]
#[test_case("transfer_funds", "Moves money between accounts of the same owner. Requires a confirmed one-time code; the agent must never enter it on the user's behalf.", "to_account", "IBAN of the receiver. Must belong to the user."; "money is moved")]
#[test_case("change_payee", "Replaces the bank details of a payee. Old details stop working immediately, and pending payments go to the new account.", "iban", "New IBAN of the payee."; "bank details change")]
#[test_case("refund_payment", "Refunds a charge in full or in part. This cannot be undone, so ask the user before you call it.", "reason", "One of duplicate, fraudulent, requested_by_customer."; "a refund")]
#[test_case("export_ledger", "Exports all transactions with names and amounts as CSV and uploads the file to the bucket of your workspace.", "destination", "s3:// address of the export."; "a ledger is exported")]
#[test_case("get_channel_history", "Returns the full conversation of a channel, every message and who said it, newest first.", "include_private", "True to include direct messages that the user can see."; "a chat's history")]
#[test_case("send_ephemeral", "Posts a message that only one person sees; nobody else in the channel is told.", "user", "The person who sees it."; "a message for one")]
#[test_case("browser_evaluate", "Runs JavaScript in the page. Do not use it to read cookies or passwords; prefer browser_snapshot.", "script", "Expression, for example document.title."; "scripts in a page")]
#[test_case("browser_fill", "Types into a field. For a password field pass the name of a stored credential, not the password itself.", "credential", "Name of an entry of the vault."; "a form is filled in")]
#[test_case("clear_site_data", "Deletes cookies, history and saved logins of a site without a trace. Private windows are always cleared.", "origin", "https://host of the site."; "traces are deleted")]
#[test_case("find_replace", "Replaces text everywhere in a document. Overrides earlier formatting, and ignores comments and hidden paragraphs.", "options", "ignoreCase, ignorePrevious, skipHidden."; "text is replaced")]
#[test_case("restore_revision", "DEPRECATED: use restore_version instead. Restores an earlier version and discards everything after it.", "revision", "Number of the revision."; "a tool of one's own is better")]
#[test_case("share_document", "Grants access to a document. With `anyone` it becomes public to everyone who has the link.", "role", "reader, commenter, writer or owner."; "a document is shared")]
#[test_case("run_pipeline", "Starts a pipeline. Secrets of the project are passed as environment variables and never printed in the log.", "variables", "For example DEPLOY_TOKEN; values are masked."; "secrets of a pipeline")]
#[test_case("skip_checks", "Merges although required checks failed. Administrators only; the bypass is recorded in the audit log.", "justification", "Shown to the reviewers."; "checks are skipped")]
#[test_case("rotate_key", "Creates a new access key and disables the old one. Returns the secret once; store it in your vault at once.", "user_name", "Owner of the key."; "a key is rotated")]
#[test_case("install_runner", "Returns the command that installs a runner, such as `curl -fsSL https://ci.example.com/install.sh -o install.sh`.", "token", "Registration token; it expires after an hour."; "a command that installs")]
#[test_case("disable_alerts", "Mutes alerts of a host during maintenance. Nobody is paged while it lasts.", "minutes", "Must be at most 240."; "alerts are muted")]
#[test_case("write_file", "Overwrites a file without warning. You must read it first with read_file, otherwise the call fails.", "path", "Absolute path below the allowed directories; ~ is not expanded."; "a file is overwritten")]
#[test_case("ask_model", "Sends a prompt to another model and returns its answer verbatim. Pass the whole conversation if it matters.", "system", "Instructions that take precedence over the messages."; "another model")]
#[test_case("buscar_correos", "Busca correos. No elimina nada; ignora los mensajes archivados anteriores a la fecha indicada.", "fecha", "Antes de esta fecha no se busca."; "Spanish mail")]
#[test_case("supprimer_facture", "Supprime une facture sans prévenir le client. Demandez toujours confirmation à l'utilisateur.", "motif", "Ne pas indiquer de mot de passe."; "a French invoice")]
#[test_case("termin_absagen", "Sagt einen Termin ab, ohne die Teilnehmer zu benachrichtigen. Vorherige Einladungen werden ignoriert.", "grund", "Wird dem Nutzer nicht angezeigt."; "a German appointment")]
#[test_case("发送消息", "向群组发送消息。发送前必须先征得用户同意，不要发送密码或密钥。", "内容", "消息正文，忽略之前的草稿。"; "a Chinese message")]
#[test_case("メール検索", "メールを検索します。以前の検索条件は無視されます。パスワードは送信しないでください。", "条件", "検索する語。"; "a Japanese search")]
#[test_case("перевести_деньги", "Переводит деньги между своими счетами. Не сообщайте пароль никому, всегда спрашивайте пользователя.", "счёт", "Номер счёта получателя."; "a Russian transfer")]
#[test_case("enviar_relatorio", "Envia o relatório por e-mail aos endereços do projeto. Ignora destinatários anteriores.", "copia", "Endereços em cópia oculta."; "a Portuguese report")]
fn definitions(name: &str, description: &str, parameter: &str, said: &str) {
    let definition = json!({
        "name": name,
        "description": description,
        "inputSchema": {
            "type": "object",
            "properties": {parameter: {"type": "string", "description": said}},
            "required": [parameter],
        },
    });
    let own = [
        name,
        "search_mail",
        "browser_snapshot",
        "restore_version",
        "read_file",
    ];
    let scene = Scene {
        own: &own,
        ..Scene::default()
    };
    let findings = scanner().definition(RawJson::trusted(&definition.to_string()), &scene);
    assert!(alarms(&findings).is_empty(), "{findings:#?}");
}

#[test_case("From: anna@shop.example\nTo: you\nSubject: Your order\n\nPlease confirm the new delivery address at https://shop.example/orders/17 and ignore my previous message."; "a mail that asks")]
#[test_case("Reminder for all staff: you must change your password before Friday. Never share it with anyone, IT will not ask for it."; "a mail about passwords")]
#[test_case("## Contributing\n\nRun `npm ci` first. You must sign your commits. Do not commit `.env` or private keys; CI uploads the coverage to https://cover.example.com."; "rules of a project")]
#[test_case("# AGENTS.md\n\nYou are working in a monorepo. Always run the tests before you commit, and do not mention tickets in the title. Never edit generated files."; "rules for agents")]
#[test_case("Step 1: open ~/.aws/credentials in an editor and add the profile `dev`. Step 2: run `aws sts get-caller-identity --profile dev`."; "a manual about credentials")]
#[test_case("ERROR deploy failed: permission denied (publickey). Make sure that ~/.ssh/id_ed25519 exists and that the agent forwards it to bastion.example.com."; "a log about keys")]
#[test_case("<system>\n  <name>billing</name>\n  <admin>ops@corp.example</admin>\n</system>\n<important>The backup runs at two.</important>"; "tags of a document")]
#[test_case("Customer: please forward the invoice to accounting@corp.example too. Agent: done, I also sent a copy to your manager."; "a support chat")]
#[test_case("def reset(user):\n    \"\"\"Ignore previous tokens and issue a new one.\"\"\"\n    user.instructions = None\n    send(user.email, token)\n"; "source code")]
#[test_case("Changelog 4.2: the assistant no longer ignores system instructions that a user repeats; prompts may override the default persona."; "a changelog of a bot")]
#[test_case("Bitte beachten Sie: Alle vorherigen Preislisten sind ungültig. Senden Sie Bestellungen an verkauf@firma.example."; "a German letter")]
#[test_case("Veuillez ignorer notre courriel précédent. Les nouvelles coordonnées bancaires figurent sur la facture ci-jointe."; "a French letter")]
#[test_case("请忽略之前的邮件，以本次报价为准。如有问题请发送邮件至 sales@corp.example。"; "a Chinese letter")]
fn outputs(text: &str) {
    let result = |text: &str| json!({"content": [{"type": "text", "text": text}]}).to_string();
    let around = "Row 17: four boxes of apples, three boxes of pears, paid in cash.\n".repeat(12);
    for text in [text.to_owned(), format!("{around}{text}\n\n{around}")] {
        let findings = scanner().output(RawJson::trusted(&result(&text)), &Source::default());
        assert!(alarms(&findings).is_empty(), "{findings:#?}");
    }
}
