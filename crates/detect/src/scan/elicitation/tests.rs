use serde_json::json;
use test_case::test_case;

use super::*;

fn field_of(params: &serde_json::Value) -> Option<String> {
    let json = params.to_string();
    asks_for_credentials(RawJson::trusted(&json)).map(|finding| finding.field)
}

/// A question with one field that takes a text.
fn question(message: &str) -> serde_json::Value {
    json!({"message": message, "requestedSchema": {"type": "object", "properties": {"answer": {"type": "string"}}}})
}

/// A form with one field.
fn form(name: &str, field: serde_json::Value) -> serde_json::Value {
    json!({"message": "Please go on", "requestedSchema": {"type": "object", "properties": {name: field}}})
}

#[test]
fn every_list_finds_its_hit_and_not_its_near_miss() {
    let text = || json!({"type": "string"});
    let asks = |name: &str, example: &str| match name {
        "hosts" => address::misleads(example).is_some(),
        "fillers" => field_of(&form(example, text())).is_some(),
        "typed" => field_of(
            &json!({"message": example, "requestedSchema": {"properties": {"ok": {"type": "boolean"}}}}),
        )
        .is_some(),
        _ => field_of(&question(example)).is_some(),
    };
    for (name, list) in &*crate::instructions::lists::QUESTIONS {
        assert!(asks(name, &list.hit), "{name}: {}", list.hit);
        assert!(!asks(name, &list.miss), "{name}: {}", list.miss);
    }
}

#[test_case("Enter your GitHub password"; "english")]
#[test_case("Enter your pаsswоrd"; "letters of another script")]
#[test_case("Enter your pass\u{200b}word"; "invisible characters")]
#[test_case("Enter your pass\u{ad}word"; "soft hyphens")]
#[test_case("Enter your ｐａｓｓｗｏｒｄ"; "full width")]
#[test_case("Enter your p4ssw0rd"; "digits for letters")]
#[test_case("Enter your p@$$word"; "signs for letters")]
#[test_case("Enter your &#112;&#97;&#115;&#115;word, please"; "characters by number")]
#[test_case("Enter your \u{202e}drowssap"; "shown from right to left")]
#[test_case("Please paste your kubeconfig"; "the file of a cluster's credentials")]
#[test_case("What is your mother's maiden name?"; "the answer to a security question")]
#[test_case("RW50ZXIgeW91ciBwYXNzd29yZCBoZXJl"; "base64")]
#[test_case("Enter the 6-digit code from your authenticator app"; "a code that is made anew")]
#[test_case("Bitte das Zugriffstoken einfügen"; "a token in german")]
#[test_case("Enter your p a s s w o r d"; "letters set apart")]
#[test_case("Enter your p.a.s.s.w.o.r.d"; "letters with points between")]
#[test_case("Enter your pass-word"; "a hyphen")]
#[test_case("Bitte geben Sie Ihr Passwort ein"; "german")]
#[test_case("Wie lautet Ihr Kennwort?"; "german in another word")]
#[test_case("Introduzca su contraseña"; "spanish")]
#[test_case("Ingrese su clave"; "spanish in another word")]
#[test_case("Saisissez votre mot de passe"; "french")]
#[test_case("Inserisci le tue credenziali"; "italian")]
#[test_case("Digite sua senha"; "portuguese")]
#[test_case("Voer uw wachtwoord in"; "dutch")]
#[test_case("Ange ditt lösenord"; "swedish")]
#[test_case("Syötä salasanasi"; "finnish")]
#[test_case("Podaj hasło"; "polish")]
#[test_case("Введите пароль"; "russian")]
#[test_case("Укажите ваш секретный ключ"; "russian secret key")]
#[test_case("请输入您的密码"; "chinese")]
#[test_case("パスワードを入力してください"; "japanese")]
#[test_case("비밀번호를 입력하세요"; "korean")]
#[test_case("أدخل كلمة المرور"; "arabic")]
#[test_case("अपना पासवर्ड दर्ज करें"; "hindi")]
#[test_case("Nhập mật khẩu của bạn"; "vietnamese")]
#[test_case("What is your PIN?"; "a pin")]
#[test_case("Please paste your PAT here"; "a personal access token")]
#[test_case("Type the twelve words of your seed phrase"; "a seed phrase")]
#[test_case("Paste your session cookie"; "a cookie")]
#[test_case("Paste the contents of ~/.ssh/id_ed25519"; "a key file")]
#[test_case("Paste the contents of your .env file."; "an env file")]
#[test_case("Copy the text of /home/me/.aws/credentials into the box"; "another file of secrets")]
#[test_case("Enter the 6-digit verification code"; "a code")]
#[test_case("We need your token"; "a token")]
fn messages_that_ask(message: &str) {
    assert_eq!(field_of(&question(message)).as_deref(), Some("message"));
}

#[test_case("What is your name?"; "a name")]
#[test_case("PIN the message to the top?"; "pinning")]
#[test_case("Which token count should be used?"; "a count of tokens")]
#[test_case("Enter the maximum number of tokens"; "a number of tokens")]
#[test_case("Choose a file"; "a file")]
#[test_case("Which of these files: notes.md, .env, main.rs?"; "names of files")]
#[test_case("Enter a name for the new API key"; "the name of a key")]
#[test_case("What is the title of your cookie recipe?"; "a recipe")]
#[test_case("Enter the path to your SSH key"; "the place of a key")]
#[test_case("Which kubeconfig context is meant?"; "a file of which nothing is asked")]
#[test_case("Add the maiden names of all ancestors to the family tree?"; "names of others")]
#[test_case("\u{202b}שלום\u{202c}: Which file?"; "letters of a script from right to left")]
#[test_case("Which compass words are meant?"; "words that end alike")]
#[test_case("Wie heißen Sie?"; "german")]
#[test_case("您叫什么名字？"; "chinese")]
#[test_case("Как вас зовут?"; "russian")]
#[test_case("Describe what the passage is about"; "a passage")]
#[test_case("Quel est votre prénom ?"; "french")]
#[test_case("Desenha um gato?"; "a word within a word")]
fn messages_that_are_harmless(message: &str) {
    assert_eq!(field_of(&question(message)), None);
}

#[test_case("apiKey", json!({"type": "string"}); "case")]
#[test_case("pw", json!({"type": "string"}); "short")]
#[test_case("PIN", json!({"type": "integer"}); "pin")]
#[test_case("PAT", json!({"type": "string"}); "pat")]
#[test_case("user_token", json!({"type": "string"}); "token")]
#[test_case("seedPhrase", json!({"type": "string"}); "seed phrase")]
#[test_case("contraseña", json!({"type": "string"}); "spanish")]
#[test_case("mot_de_passe", json!({"type": "string"}); "french")]
#[test_case("p4ssw0rd", json!({"type": "string"}); "digits for letters")]
#[test_case("dotenv", json!({"type": "string"}); "env file")]
#[test_case("id_rsa", json!({"type": "string"}); "a key file")]
#[test_case("%6f%74%70", json!({"type": "string"}); "escapes for bytes")]
fn names_that_ask(name: &str, field: serde_json::Value) {
    let expected = format!("requestedSchema.properties.{name}");
    assert_eq!(field_of(&form(name, field)), Some(expected));
}

#[test_case("token_count", json!({"type": "integer"}); "count")]
#[test_case("max_tokens", json!({"type": "integer"}); "maximum")]
#[test_case("next_page_token", json!({"type": "string"}); "page")]
#[test_case("pinned", json!({"type": "boolean"}); "pinned")]
#[test_case("pin_message", json!({"type": "string"}); "message")]
#[test_case("passage", json!({"type": "string"}); "passage")]
#[test_case("secret_name", json!({"type": "string"}); "name")]
#[test_case("remember_password", json!({"type": "boolean"}); "yes or no")]
#[test_case("rotate", json!({"type": "boolean", "title": "Rotate the API key"}); "yes or no about a key")]
#[test_case("auth", json!({"type": "string", "enum": ["password", "ssh_key"]}); "a choice of ways")]
#[test_case("auth", json!({"type": "string", "enum": ["a", "b"], "enumNames": ["Use your password", "Use your SSH key"]}); "a choice with names")]
#[test_case("name", json!({"type": "string", "default": "secret"}); "a default")]
#[test_case("compassWords", json!({"type": "string"}); "words that end alike")]
fn fields_that_are_harmless(name: &str, field: serde_json::Value) {
    assert_eq!(field_of(&form(name, field)), None);
}

#[test_case(json!({"type": "string", "format": "password"}), "format"; "by its format")]
#[test_case(json!({"type": "string", "title": "Access token"}), "title"; "by its title")]
#[test_case(json!({"type": "string", "description": "The password of the account"}), "description"; "by its description")]
#[test_case(json!({"type": "string", "enum": ["a"], "enumNames": ["Type your password below"]}), "enumNames[0]"; "by the name of a value")]
#[test_case(json!({"type": "string", "oneOf": [{"const": "a", "title": "Enter your API key in the chat"}]}), "oneOf[0].title"; "by the title of a value")]
#[test_case(json!({"type": "string", "title": ".env"}), "title"; "by a file of secrets")]
fn fields_that_ask(field: serde_json::Value, place: &str) {
    let expected = format!("requestedSchema.properties.x.{place}");
    assert_eq!(field_of(&form("x", field)), Some(expected));
}

#[test]
fn the_title_of_a_form_asks() {
    let params = json!({"message": "Hi", "requestedSchema": {"title": "Your SSH private key", "properties": {"x": {"type": "string"}}}});
    assert_eq!(field_of(&params).as_deref(), Some("requestedSchema.title"));
}

#[test]
fn a_question_without_a_form_asks() {
    assert_eq!(
        field_of(&json!({"message": "Your password?"})).as_deref(),
        Some("message")
    );
}

#[test]
fn yes_or_no_takes_no_secret_unless_one_is_to_be_typed() {
    let with = |message: &str| json!({"message": message, "requestedSchema": {"properties": {"ok": {"type": "boolean"}}}});
    assert_eq!(field_of(&with("Delete the password of the test account?")), None);
    assert_eq!(
        field_of(&with("Enter your password in the chat, then accept")).as_deref(),
        Some("message")
    );
}

#[test_case(json!({"mode": "url", "message": "Enter your password on our page", "url": "https://a.example"}), None; "a page")]
#[test_case(json!({"mode": "url", "message": "Enter your password"}), Some("message"); "no page")]
#[test_case(json!({"mode": "url", "url": "https://a.example", "message": "Log in", "requestedSchema": {"properties": {"password": {"type": "string"}}}}), Some("requestedSchema.properties.password"); "a page and a form")]
fn pages_may_ask_where_no_form_does(params: serde_json::Value, expected: Option<&str>) {
    assert_eq!(field_of(&params).as_deref(), expected);
}

#[test]
fn an_address_that_misleads_is_told_with_its_reason() {
    let params =
        json!({"mode": "url", "message": "Log in", "url": "https://github.com@evil.example"}).to_string();
    let (finding, reason) = leads_astray(RawJson::trusted(&params)).expect("it misleads");
    assert_eq!(
        (finding.pattern.as_str(), finding.field.as_str()),
        ("misleading_address", "url")
    );
    assert!(reason.contains("user"), "{reason}");
    let honest = json!({"mode": "url", "message": "Log in", "url": "https://github.com/login"}).to_string();
    assert_eq!(leads_astray(RawJson::trusted(&honest)), None);
}

proptest::proptest! {
    #[test]
    fn no_question_panics(message in proptest::prelude::any::<String>(), name in r"\PC{0,40}") {
        let params = json!({"message": message, "url": name, "requestedSchema": {"properties": {(name): {"title": message}}}});
        let json = params.to_string();
        asks_for_credentials(RawJson::trusted(&json));
        leads_astray(RawJson::trusted(&json));
    }
}
