//! The words for credentials in many languages, and what makes a text ask for one.

use std::sync::LazyLock;

use regex::Regex;

use super::spelling::readings;
use crate::inspect::{normalise::skeleton::Skeleton, secrets};

/// Words for what nobody may ask for. `_` stands between words that are also written as one.
const CREDENTIALS: &str = "\
    password passwd pass_word pass_phrase pass_code pass_key pwd pswd passcode senha \
    credential login_detail login_data login_info log_in_detail sign_in_detail \
    api_key api_token api_secret app_secret consumer_secret application_secret \
    access_token auth_token authentication_token authorization_token bearer_token refresh_token session_token \
    personal_access_token secret_token oauth_token jwt_token github_token gitlab_token npm_token pypi_token \
    slack_token bot_token service_token deploy_token login_token jwt \
    access_key auth_key authentication_key bearer_key session_key secret_access_key secret_key \
    client_secret private_key ssh_key signing_key encryption_key decryption_key master_key account_key \
    seed_phrase seed_word mnemonic_phrase mnemonic_word secret_phrase recovery_phrase recovery_word \
    recovery_code recovery_key backup_code backup_phrase wallet_phrase word_phrase wallet_seed \
    one_time_code one_time_password one_time_pin otp totp 2fa mfa two_factor verification_code security_code \
    authenticator_code authentication_code sms_code confirmation_code login_code sign_in_code access_code \
    reset_code cvv cvc card_number credit_card debit_card card_pin card_detail bank_card bank_account_number \
    social_security ssn session_cookie auth_cookie login_cookie cookie_value cookie_header cookie_string \
    browser_cookie pin_code pin_number personal_identification_number secret_code connection_string aws_secret";

/// The same in other languages, as parts of words.
const FOREIGN: &str = "\
    passwort passwoert kennwort losungswort zugangsdaten anmeldedaten geheimzahl zugangscode zugangsschlüssel zugriffstoken zugriffsschlüssel zugangstoken \
    api_schlüssel privater_schlüssel privaten_schlüssel geheimer_schlüssel geheimen_schlüssel wiederherstellungs \
    sicherheitscode bestätigungscode einmalcode kreditkarte \
    contraseña clave_de_acceso clave_secreta clave_privada clave_api clave_de_api clave_ssh credenciales \
    código_de_verificación código_de_seguridad código_de_recuperación frase_semilla frase_de_recuperación \
    frase_secreta tarjeta_de_crédito token_de_acceso número_de_tarjeta \
    mot_de_passe identifiants_de_connexion informations_de_connexion clé_api clé_d_api clé_privée clé_secrète \
    clé_ssh code_secret code_de_vérification code_de_sécurité jeton_d_accès phrase_de_récupération \
    phrase_secrète carte_bancaire carte_de_crédit carte_bleue \
    parola_d_ordine parola_di_accesso chiave_api chiave_privata chiave_segreta chiave_ssh chiave_di_accesso \
    credenziali codice_di_verifica codice_di_sicurezza codice_segreto frase_di_recupero carta_di_credito \
    token_di_accesso \
    palavra_passe credenciais chave_de_api chave_api chave_privada chave_secreta chave_ssh chave_de_acesso \
    código_de_verificação código_de_segurança frase_semente frase_de_recuperação cartão_de_crédito \
    token_de_acesso \
    wachtwoord inloggegevens toegangscode pincode privésleutel api_sleutel geheime_sleutel herstelzin \
    verificatiecode lösenord passord adgangskode kodeord inloggningsuppgifter api_nyckel privat_nyckel \
    salasan tunnusluku tunnussana kirjautumistied yksityinen_avain yksityisen_avaim api_avain vahvistuskoodi \
    palautuslause hasło hasła haseł klucz_api klucz_prywatny dane_logowania kod_weryfikacyjny \
    heslo přihlašovací_údaje soukromý_klíč api_klíč ověřovací_kód jelszó jelszav privát_kulcs şifre \
    api_anahtar özel_anahtar doğrulama_kodu lozink slaptažod parool salasõna nenosiri pasvort \
    κωδικός_πρόσβασης κωδικό_πρόσβασης συνθηματικό ιδιωτικό_κλειδί \
    парол секретный_ключ секретного_ключа секретный_код ключ_api api_ключ апи_ключ закрытый_ключ \
    приватный_ключ приватного_ключа код_подтверждения код_из_смс пин_код учётные_данные учетные_данные \
    данные_для_входа сид_фраз seed_фраз мнемоническ токен_доступа облікові_дані приватний_ключ лозинк \
    密码 密碼 口令 密钥 密鑰 金鑰 私钥 私鑰 令牌 验证码 驗證碼 凭证 凭据 憑證 助记词 助記詞 信用卡 恢复短语 \
    パスワード 暗証番号 秘密鍵 認証情報 apiキー アクセストークン シードフレーズ リカバリーフレーズ 合言葉 認証コード \
    確認コード クレジットカード ログイン情報 シークレットキー 資格情報 \
    비밀번호 비번 암호를 인증번호 인증_코드 개인_키 비밀_키 api_키 자격_증명 시드_구문 복구_구문 신용카드 액세스_토큰 \
    كلمة_المرور كلمة_السر كلمة_مرور رمز_التحقق المفتاح_الخاص الرقم_السري رمز_عبور گذرواژه סיסמה סיסמא סיסמת \
    पासवर्ड পাসওয়ার্ড รหัสผ่าน mật_khẩu khóa_api mã_xác_minh kata_sandi kata_laluan";

/// Words that also stand for other things: they count where they are asked for.
const AMBIGUOUS: &str = "\
    token secret pin pat pw psw cookie mnemonic env_var environment_variable env_file dotenv dot_env keychain \
    digit_code code_from_your_authenticator \
    clave parola geslo jeton";

/// Words that say that something is to be typed.
const TYPED: &str = "\
    enter type paste input provide supply submit key_in fill insert reveal write \
    eingeben eingib gib geben tippe tippen einfügen nenne nennen angeben introduce introduzca ingresa ingrese \
    escribe escriba pega pegue proporciona proporcione indique entrez saisissez saisir collez indiquez fournissez \
    donnez renseignez inserisci inserire inserisca digita digiti scrivi incolla fornisci digite insira informe \
    cole escreva voer typ plak ange skriv syötä kirjoita anna liitä wpisz podaj wklej zadejte zadej vložte girin \
    yazın masukkan nhập введите введи вводит укажите укажи вставьте напишите сообщите أدخل 输入 輸入 填写 填寫 提供 \
    粘贴 貼上 入力 貼り付け 教えて 입력 붙여 알려";

/// Words that say that something is asked for, or whose it is.
const OWNED: &str = "\
    your my user_s give share tell send need requires require required request confirm verify what_is what_s \
    ihr ihre ihren dein deine deinen su tu votre ton tuo tua vostra sua seu uw twoje ваш ваша твой";

/// Words that speak of what is inside a file.
const CONTENTS: &str = "\
    content contents paste text inside output copy dump cat everything what_is_in what_s_in value values inhalt \
    contenu contenido contenuto conteúdo содержимое 内容 內容 내용 sisältö inhoud zawartość içeriği";

/// Words before one for a credential that say that something else of it is meant.
const ABOUT: &str = r" (?:names?|labels?|titles?|descriptions?|paths?|locations?|folders?|directory|directories|types?|kinds?|expiry|expirations?|lifetimes?|scopes?|permissions?|policy) (?:of|for|to) (?:(?:the|a|an|this|that|new|your|my|its|of|another|existing|all) )*$";
/// The same of an ambiguous word.
const COUNTED: &str = r" (?:(?:number|count|maximum|max|minimum|min|total|how many|amount|budget|limit)(?: (?:of|for|in))?|gpio|led|map|reset|clock|data|input|output|next|page|stop|design|lapel|drop|favou?rite|open) (?:(?:the|a|an|your|my) )*$";
/// Words behind one for a credential that say the same.
const ASPECT: &str = r"^ (?:counts?|limits?|budgets?|usage|used|length|names?|ids?|types?|policy|policies|rules?|strength|expiry|expires?|expirations?|rotations?|rotate|resets?|managers?|generators?|protected|protection|prompts?|colou?rs?|position|location|board|messages?|window|pricing|prices?|costs?|rates?|bucket|per|based|consent|banner|santa|garden|sauce|ingredients?|the|this|that|it|to|on|a|an|dough|recipe) ";

/// Words of a label that say nothing about what it takes.
const FILLERS: [&str; 8] = [
    "value", "input", "field", "here", "text", "string", "new", "optional",
];
/// Words that a text has at most for an ambiguous one to be all that it says.
const FEW_WORDS: usize = 3;
/// Bytes before and behind a word in which what asks for it is looked for.
const BEFORE: usize = 80;
const BEHIND: usize = 60;

/// How a text has to speak of a credential to ask for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Asking {
    /// It names one: there is a place to type it.
    Named,
    /// It says that one is to be typed: no place for it is in sight.
    Typed,
}

/// The patterns of all words.
pub(super) struct Terms {
    credentials: Regex,
    ambiguous: Regex,
    typed: Regex,
    owned: Regex,
    contents: Regex,
    about: Regex,
    counted: Regex,
    aspect: Regex,
}

/// Built when the first question is asked.
pub(super) static TERMS: LazyLock<Terms> = LazyLock::new(Terms::new);

impl Terms {
    fn new() -> Self {
        let compile =
            |pattern: &str| Regex::new(pattern).expect("a constant pattern is compiled by every test");
        let whole = |list: &str| compile(&format!(" (?:{})s? ", alternatives(list)));
        let credentials = format!(
            " (?:{})s? | ?[^ ]*(?:{})[^ ]* ",
            alternatives(CREDENTIALS),
            alternatives(FOREIGN)
        );
        // Scripts without spaces have their verbs within words.
        let among = |list: &str| {
            compile(&format!(
                " (?:{0})s? |[^\\x00-\\x7f]*(?:{1})",
                alternatives(list),
                beyond_ascii(list)
            ))
        };
        Self {
            credentials: compile(&format!(
                "{credentials}|[^ ]*(?:password|passphrase|credential|apikey)[^ ]* "
            )),
            ambiguous: whole(AMBIGUOUS),
            typed: among(TYPED),
            owned: whole(OWNED),
            contents: among(CONTENTS),
            about: compile(ABOUT),
            counted: compile(COUNTED),
            aspect: compile(ASPECT),
        }
    }

    /// The credential that a sentence asks for.
    pub(super) fn in_prose(&self, text: &str, asking: Asking) -> Option<String> {
        readings(text, false)
            .iter()
            .find_map(|reading| self.in_reading(reading, asking))
    }

    fn in_reading(&self, reading: &str, asking: Asking) -> Option<String> {
        let credential = self.each(&self.credentials, reading, |around| {
            let is_owned = self.owned.is_match(&around.last_word());
            let is_aspect =
                self.about.is_match(around.before) || !is_owned && self.aspect.is_match(around.behind);
            !is_aspect && (asking == Asking::Named || around.has(&self.typed))
        });
        credential.or_else(|| {
            self.each(&self.ambiguous, reading, |around| {
                let is_aspect = self.about.is_match(around.before)
                    || self.counted.is_match(around.before)
                    || self.aspect.is_match(around.behind);
                let is_asked = match asking {
                    Asking::Typed => around.has(&self.typed),
                    Asking::Named => {
                        around.has(&self.typed)
                            || around.has(&self.owned)
                            || reading.split_whitespace().count() <= FEW_WORDS
                    }
                };
                !is_aspect && is_asked
            })
        })
    }

    /// The first match of `terms` of which `counts` holds.
    fn each(&self, terms: &Regex, reading: &str, counts: impl Fn(&Around<'_>) -> bool) -> Option<String> {
        let mut from = 0;
        while let Some(found) = terms.find_at(reading, from) {
            let around = Around::of(reading, found.start(), found.end());
            if counts(&around) {
                return Some(found.as_str().trim().to_owned());
            }
            // The space behind a word is the one before the next.
            from = found.end() - 1;
            if from <= found.start() {
                break;
            }
        }
        None
    }

    /// The credential that a field takes, by its name or title.
    pub(super) fn in_label(&self, text: &str, is_name: bool) -> Option<String> {
        let readings = readings(text, is_name);
        let named = || {
            let words: Vec<&str> = readings.first()?.split_whitespace().collect();
            secrets::names_a_secret(&words.join("_")).then(|| words.join(" "))
        };
        let mut each = readings.iter();
        each.find_map(|reading| {
            self.in_reading(reading, Asking::Named)
                .or_else(|| self.ends_in_ambiguous(reading))
        })
        .or_else(named)
    }

    /// The ambiguous word that a label consists of, with words before it that say whose or which it is.
    fn ends_in_ambiguous(&self, reading: &str) -> Option<String> {
        let mut words: Vec<&str> = reading.split_whitespace().collect();
        let is_filler =
            |word: &&str| FILLERS.contains(word) || word.bytes().all(|byte| byte.is_ascii_digit());
        while words.len() > 1 && words.last().is_some_and(is_filler) {
            words.pop();
        }
        let last = words.last()?;
        let before = format!(" {} ", words[..words.len() - 1].join(" "));
        let is_ambiguous = self.ambiguous.is_match(&format!(" {last} "))
            // What a token is of, and how many there are, is told by the names of secrets.
            && !matches!(*last, "tokens" | "token" | "secrets" | "pins")
            && !self.counted.is_match(&before)
            && !self.about.is_match(&before);
        is_ambiguous.then(|| words.join(" "))
    }

    /// Whether a text asks for what is inside of something.
    pub(super) fn asks_for_contents(&self, text: &str, asking: Asking) -> bool {
        readings(text, false).iter().any(|reading| {
            self.contents.is_match(reading) && (asking == Asking::Named || self.typed.is_match(reading))
        })
    }
}

/// A reading around a word.
struct Around<'r> {
    before: &'r str,
    behind: &'r str,
}

impl<'r> Around<'r> {
    fn of(reading: &'r str, start: usize, end: usize) -> Self {
        let from = reading.ceil_char_boundary(start.saturating_sub(BEFORE));
        let to = reading.floor_char_boundary((end + BEHIND).min(reading.len()));
        // Words have a space on either side.
        let first = reading[start..].chars().next().filter(|c| *c == ' ');
        Self {
            before: &reading[from..start + first.map_or(0, char::len_utf8)],
            behind: &reading[end.saturating_sub(1).max(start)..to],
        }
    }

    fn has(&self, words: &Regex) -> bool {
        words.is_match(self.before) || words.is_match(self.behind)
    }

    fn last_word(&self) -> String {
        let last = self.before.split_whitespace().next_back().unwrap_or_default();
        format!(" {last} ")
    }
}

/// A pattern of all words of a list, each as it is written and as it looks.
fn alternatives(list: &str) -> String {
    let mut all: Vec<String> = list.split_whitespace().flat_map(spellings).collect();
    // Of two that begin alike the longer one is tried first.
    all.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
    all.dedup();
    all.join("|")
}

/// The words of a list that are not written with ASCII, or nothing that matches.
fn beyond_ascii(list: &str) -> String {
    let words: Vec<&str> = list.split_whitespace().filter(|word| !word.is_ascii()).collect();
    alternatives(&words.join(" "))
}

/// A word as skeletons have it: on its own, and as the part of a longer one that cannot be Latin.
fn spellings(word: &str) -> [String; 2] {
    /// Looks like no letter of ASCII.
    const OWN: &str = "ж";
    let spaced = word.replace('_', " ");
    let folded = |text: &str| Skeleton::of(text).text.to_lowercase();
    let parts = spaced.split(' ').map(|part| folded(&format!("{part}{OWN}")));
    let apart: Vec<String> = parts.map(|part| part.trim_end_matches(OWN).to_owned()).collect();
    [folded(&spaced), apart.join(" ")].map(|text| regex::escape(&text).replace(' ', " ?"))
}
