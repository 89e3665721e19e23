//! Instructions about instructions in other languages; accents are gone by the time these are run.

use super::{Shape, Signal};

pub(super) const SHAPES: &[Shape] = &[
    // Spanish and Portuguese
    Shape {
        signal: Signal::Override,
        anchors: &[
            "ignor",
            "olvid",
            "descart",
            "desprec",
            "desconsid",
            "esquec",
            "anul",
            "haz caso omiso",
            " omit",
        ],
        pattern: r"\b(?:ignor[ae]\w{0,3}|olvid[ae]\w{0,4}|descart[ae]\w{0,2}|despreci[ae]\w{0,2}|desconsider[ae]\w{0,2}|esque[ca]\w{0,4}|anul[ae]\w{0,2}|omit[ae]\w{0,2}|haz caso omiso de)%s%(?:[a-z]+%s%){0,4}?(?:instrucci(?:on|ones)|instruc(?:oes|ao)|restricci(?:on|ones)|restric(?:oes|ao)|reglas?|regras?|ordenes|ordens|directrices|diretrizes|indicaciones|indicacoes|normas|prompt)\b",
    },
    // French
    Shape {
        signal: Signal::Override,
        anchors: &[
            "ignor",
            "oubli",
            "rejet",
            "neglig",
            "ne tenez",
            "ne tiens",
            "contourn",
            "pas compte",
            "annul",
        ],
        pattern: r"\b(?:ignor\w{1,4}|oubli\w{1,4}|rejet\w{1,4}|neglig\w{1,4}|contourn\w{1,4}|annul\w{1,4}|ne (?:tenez|tiens) (?:pas|aucun) compte (?:de|des))%s%(?:[a-z]+%s%){0,4}?(?:instructions?|consignes?|regles?|directives?|ordres|restrictions?|contraintes)\b",
    },
    // German and Dutch
    Shape {
        signal: Signal::Override,
        anchors: &[
            "ignorier",
            "missacht",
            "vergiss",
            "vergess",
            "umgeh",
            "negeer",
            "vergeet",
            "beachte",
            "verwirf",
            "ausser acht",
            "uberschreib",
        ],
        pattern: r"\b(?:ignorier\w{1,3}|missacht\w{1,3}|vergiss|vergessen|umgeh\w{1,3}|verwirf|negeer|vergeet|uberschreib\w{0,3}|beachten? (?:sie )?nicht)%s%(?:[a-z]+%s%){0,5}?(?:anweisung(?:en)?|vorgaben?|regeln?|instruktion(?:en)?|befehle?|richtlinien?|instructies?|regels?|anordnungen|einschrankungen|vorschriften|prompts?)\b",
    },
    // Italian
    Shape {
        signal: Signal::Override,
        anchors: &["ignor", "dimentic", "trascur", "scart"],
        pattern: r"\b(?:ignor[aie]\w{0,3}|dimentic[ah]\w{0,3}|trascur[ai]\w{0,3}|scart[ai]\w{0,3})%s%(?:[a-z]+%s%){0,4}?(?:istruzion[ei]|regol[ae]|direttiv[ae]|ordini|restrizioni|comandi)\b",
    },
    // Polish, Turkish, Indonesian
    Shape {
        signal: Signal::Override,
        anchors: &[
            "zignoruj",
            "ignoruj",
            "zapomnij",
            "pomin",
            "yok say",
            "gormezden",
            "unut",
            "abaikan",
            "lupakan",
            "dikkate alma",
        ],
        pattern: r"\b(?:z?ignoruj\w{0,3}|zapomnij(?: o)?|pomin)%s%(?:[a-z\x80-\xff]+%s%){0,4}?(?:instrukcj\w{1,3}|polecen\w{1,4}|zasad\w{0,2}|regu\S{0,4})|\b(?:talimat|kural|yonerge)\S{0,10}%s%(?:[a-z]+%s%){0,2}?(?:yok say|gormezden|unut|dikkate alma)|\b(?:abaikan|lupakan)%s%(?:[a-z]+%s%){0,3}?(?:instruksi|perintah|aturan|petunjuk)\b",
    },
    // Russian and Ukrainian; й and ї have lost their marks
    Shape {
        signal: Signal::Override,
        anchors: &[
            "игнорир",
            "забуд",
            "пренебре",
            "отмени",
            "не обращаи внимания",
            "ігнору",
        ],
        pattern: r"(?:про)?(?:игнорир|ігнору|забуд|пренебре|отмени|не обращаи внимания)\S{0,12}(?:\s+\S{1,30}){0,4}?\s+(?:инструкци|указани|правил|команд|ограничени|распоряжени|інструкці|вказівк)",
    },
    // Chinese
    Shape {
        signal: Signal::Override,
        anchors: &[
            "忽略",
            "无视",
            "忘记",
            "忘掉",
            "不要理会",
            "不理会",
            "绕过",
            "抛弃",
            "不要遵守",
            "不要遵循",
            "丢弃",
            "無視",
            "不必理会",
            "违反",
            "覆盖",
        ],
        pattern: r"(?:忽略|无视|忘记|忘掉|不要理会|不理会|不必理会|绕过|抛弃|丢弃|無視|不要遵守|不要遵循|违反|覆盖)[^\x00-\x7f]*?(?:指示|指令|规则|提示|命令|要求|说明|限制|约束|設定|设定|規則|指引|准则)",
    },
    // Japanese and Korean
    Shape {
        signal: Signal::Override,
        anchors: &["無視", "忘れ", "従わない", "무시", "잊어", "따르지"],
        pattern: r"(?:指示|命令|ルール|プロンプト|規則|制約|制限|ガイドライン)[^\x00-\x40\x5b-\x60\x7b-\x7f]*?(?:無視|忘れ|従わない)|(?:지시|명령|규칙|지침|프롬프트|제한)\S{0,12}\s?(?:\S{1,12}\s){0,3}?(?:무시|잊어|따르지)",
    },
    // Arabic and Hindi
    Shape {
        signal: Signal::Override,
        anchors: &["تجاهل", "انس", "अनदेखा", "नजरअंदाज", "भूल जा"],
        pattern: r"(?:تجاهل|انس)\S{0,4}(?:\s+\S{1,24}){0,3}?\s+\S{0,6}(?:تعليمات|اوامر|قواعد|توجيهات)|(?:निर्देश|नियम|आदेश)\S{0,12}(?:\s+\S{1,20}){0,3}?\s+(?:अनदेखा|नजरअंदाज|भूल)",
    },
    // The user is not to know, or data is to go out
    Shape {
        signal: Signal::Conceal,
        anchors: &[
            "不要告诉",
            "不要提及",
            "别告诉",
            "不要让用户",
            "no le digas",
            "no menciones",
            "ne dites pas",
            "ne dis pas",
            "ne mentionne",
            "sage dem",
            "sagen sie dem",
            "не сообща",
            "не говори",
            "ユーザーに",
        ],
        pattern: r"(?:不要告诉|别告诉|不要让|不要向)[^\x00-\x7f]{0,12}?用户|\bno (?:le )?(?:digas|menciones|informes|reveles)%s%(?:[a-z]+%s%){0,4}?usuario|\bne (?:dites|dis|mentionn\w{1,3}|revel\w{1,4}|inform\w{1,3})%s%(?:[a-z]+%s%){0,6}?utilisateur|\b(?:sage|sagen sie|informier\w{1,3}|verrat\w{0,3})%s%(?:dem|den|der)%s%(?:benutzer|nutzer|anwender)\w{0,2}%s%(?:[a-z]+%s%){0,4}?nicht|не (?:сообща|говори)\S{0,6}(?:\s+\S{1,20}){0,3}?\s*пользовател|ユーザーに[^\x00-\x7f]*?(?:言わない|知らせない|伝えない|教えない)",
    },
    Shape {
        signal: Signal::SendAway,
        anchors: &["发送到", "发送给", "上传到", "发到", "转发"],
        pattern: r"(?:数据|密码|密钥|凭证|内容|信息|文件|记录|令牌)[^\x00-\x7f]*?(?:发送|上传|发|转发)(?:到|给|至)(?:外部|远程|攻击者|第三方|\s{0,2}https?://|[^\x00-\x7f]{0,9}服务器)",
    },
];
