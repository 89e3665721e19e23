//! The same in other languages. Skeletons have no accents; neither have the words when they are looked up.

use super::Concept::{self, *};

pub(super) const WORDS: &[(Concept, &str)] = &[
    // German, Dutch
    (
        Take,
        "lies lesen liest auslesen öffne öffnen hole holen sammle lade lees lezen ophalen haal",
    ),
    (
        Give,
        "übergib übergeben sende senden schicke mitschicken füge einfügen gib angeben weiterleiten leite stuur stuurt meegeven geef mee plaats doorsturen",
    ),
    (Must, "muss müssen soll sollen muß bitte immer moet moeten altijd"),
    (
        First,
        "vorher zuerst zunächst bevor vor_der vor_dem vor_jedem eerst voordat",
    ),
    (
        User,
        "nutzer benutzer anwender benutzers nutzers kunden gebruiker",
    ),
    (
        Tells,
        "sag sage sagen erwähne erwähnen erzähle verrate informiere mitteilen erwähnst vertel vermeld vertellen",
    ),
    (
        Nots,
        "nicht nichts kein keine niemals nie ohne niet nooit niets zonder",
    ),
    (
        Secret,
        "passwort passwörter passwörtern kennwort kennwörter zugangsdaten geheimnisse schlüssel anmeldedaten wachtwoord wachtwoorden sleutel",
    ),
    (Slot, "feld parameter eingabe notitie veld"),
    (Overrule, "ignoriere ignorieren vergiss missachte negeer vergeet"),
    (Rules, "anweisungen regeln vorgaben instructies regels"),
    // French
    (
        Take,
        "lis lire lisez récupère récupérer récupérez ouvre ouvrez obtiens",
    ),
    (
        Give,
        "envoie envoyer envoyez transmets transmettez transférez place placez mets mettez insère passe passez ajoute ajoutez fournis",
    ),
    (Must, "dois doit devez toujours obligatoire veuillez"),
    (First, "avant d_abord abord préalable"),
    (User, "utilisateur utilisateurs l_utilisateur"),
    (
        Tells,
        "dis dire dites parler parle mentionne mentionner mentionnez informe informer révèle révéler",
    ),
    (Nots, "pas sans jamais rien aucun"),
    (
        Secret,
        "mot_de_passe mots_de_passe identifiants clé_privée secrets",
    ),
    (Slot, "paramètre champ"),
    (Overrule, "oublie oubliez ignorez"),
    (Rules, "consignes règles instructions"),
    // Spanish, Portuguese, Italian
    (
        Take,
        "lee leer lea obtén obtener recupera abre leia ler obtenha abra leggi leggere recupera apri ottieni",
    ),
    (
        Give,
        "envía enviar envíe envíalo pasa pásalas pásalo pasar incluye incluir pon coloca envie enviá inclua coloque passe invia inviare passalo passa inseriscilo inserisci includi metti",
    ),
    (Must, "debe debes siempre obligatorio deve sempre devi"),
    (First, "antes primero primeiro prima"),
    (User, "usuario usuarios usuário utente utenti"),
    (
        Tells,
        "digas diga decir menciones mencionar informes informe enterarse conte contar mencione dica dire dirlo menzionare informare informarlo",
    ),
    (Nots, "no sin nunca não sem nunca nao non senza mai"),
    (
        Secret,
        "contraseña contraseñas credenciales claves senha senhas credenciais chave_privada credenziali clave_privada chiave_privata",
    ),
    (
        Slot,
        "parámetro campo parâmetro argumento parametro contexto nota obs",
    ),
    (Overrule, "olvida ignora ignore esqueça dimentica"),
    (Rules, "instrucciones instruções istruzioni regole reglas regras"),
    // Polish, Turkish
    (Take, "odczytaj przeczytaj oku okuyun pobierz"),
    (Give, "przekaż wyślij wstaw gönder ekle ekleyin aktar"),
    (Must, "musi musisz zawsze"),
    (First, "najpierw przed önce"),
    (
        User,
        "użytkownik użytkownikowi użytkownika kullanıcı kullanıcıya kullanıcının",
    ),
    (Tells, "mów powiedz informuj wspominaj"),
    (Nots, "nie bez"),
    (Kept, "söyleme söylemeyin bildirme"),
    (
        Secret,
        "hasła hasło hasłami haseł şifre parola şifreleri parolaları",
    ),
    (Slot, "polu pole parametresine alanına"),
    // Russian, Ukrainian
    (
        Take,
        "прочитай прочитайте прочти считай получи открой извлеки зчитай",
    ),
    (
        Give,
        "отправь отправьте передай передайте вставь добавь помести укажи надішли передай",
    ),
    (Must, "должен должны нужно обязательно всегда"),
    (First, "перед сначала прежде"),
    (
        User,
        "пользователь пользователю пользователя пользователей користувачу",
    ),
    (
        Tells,
        "сообщай сообщайте говори говорите упоминай рассказывай кажи",
    ),
    (Nots, "не без никогда"),
    (
        Secret,
        "пароль пароли паролей паролями пароля ключи ключ_доступа учетные_данные",
    ),
    (Slot, "поле поля параметр параметре параметром"),
    // Chinese
    (Take, "读取 获取 打开 收集 讀取 取得 查看"),
    (
        Give,
        "放入 传入 发送 填入 附上 传递 上传 作为参数 提供 發送 放到 写入",
    ),
    (Must, "必须 请 需要 务必 應 必須"),
    (First, "之前 先 调用前 使用前 首先"),
    (User, "用户 使用者 用戶"),
    (Tells, "告诉 知道 提及 告知 透露 提到"),
    (Nots, "不要 别 不能 不得 不可 勿 无需"),
    (Secret, "密码 密钥 私钥 凭证 令牌 口令 密鑰 密碼"),
    (Slot, "参数 字段 參數"),
    (Overrule, "忽略 无视 忘记"),
    (Rules, "指令 指示 规则"),
    // Japanese
    (Take, "読み取 読んで 読み込 取得 開いて"),
    (Give, "入れて 渡し 送信 含めて 送って 設定して"),
    (Must, "必ず してください ください"),
    (First, "前に まず"),
    (User, "ユーザー 利用者"),
    (Tells, "伝え 知らせ 言わ 教え 通知"),
    (Nots, "ないこと ないで しない せず ない"),
    (Secret, "パスワード 秘密鍵 認証情報 資格情報"),
    (Slot, "引数 パラメータ"),
    // Korean
    (Take, "읽어 읽고 가져와 가져오 읽은"),
    (Give, "넣고 넣어 전달 보내 전송 포함"),
    (Must, "반드시 하세요 먼저"),
    (First, "전에 먼저"),
    (User, "사용자 유저"),
    (Tells, "알리지 말하지 알려주지"),
    (Nots, "마세요 말고 않 마십시오"),
    (Secret, "비밀번호 암호 자격 개인키"),
];
