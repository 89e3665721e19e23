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
    // What models are told, in the languages above
    (
        Model,
        "assistent assistenten assistentin ki sprachmodell sprachmodelle agenten ia modèle asistente modelo agente agentes modello assistente asystent asystencie агент агенту ассистент ассистента ассистенту помощник помощнику модель модели нейросеть 助手 人工智能 智能体 语言模型 模型 代理 アシスタント エージェント モデル 어시스턴트 모델 에이전트",
    ),
    (
        Called,
        "ki_assistent ki_assistenten ki_agent ki_agenten für_den_assistenten an_den_assistenten an_das_sprachmodell an_die_ki à_l_attention_de_l_ia pour_l_ia pour_l_assistant à_l_assistant instrucción_para_la_ia para_la_ia para_el_asistente al_asistente für_die_ki ai助手 致ai ai助手请 助手请 アシスタントへ для_ассистента для_языковой_модели для_модели ассистенту языковой_модели",
    ),
    (
        Posed,
        "neue_anweisung neue_aufgabe eigentliche_aufgabe nouvelle_consigne nouvelle_instruction vraie_mission véritable_mission nueva_instrucción nueva_tarea verdadera_tarea новая_инструкция новое_задание настоящее_задание 新指令 新任务 新しい指示",
    ),
    (Hails, "an für den das die à pour para la al el для"),
    (
        Drop,
        "ignoriere ignorieren vergiss vergesst missachte verwirf oublie oubliez ignore ignorez olvida olvide ignora ignore descarta desprecia забудь забудьте игнорируй игнорируйте отбрось 忽略 无视 忘记 忘掉 不要理会 無視 忘れて 무시 잊어",
    ),
    (
        Order,
        "sende schicke leite übermittle übergib lies öffne hole sammle lösche buche füge setze gib trage ersetze führe installiere lade veröffentliche verschicke antworte behaupte envoie envoyez transmets transmettez transfère transférez lis lisez ouvre ouvrez récupère récupérez rassemble rassemblez publie publiez supprime supprimez réserve ajoute ajoutez remplace remplacez exécute exécutez mets mettez joins envía envíe enviar reenvía reenvíe lee abre recoge reúne publica borra elimina añade agrega incluye cambia reemplaza ejecuta ejecute instala compra paga envie leia abra apague execute invia leggi apri cancella esegui отправь отправьте перешли перешлите передай прочитай открой собери удали удалите выполни добавь замени запусти скопируй покажи 发送 读取 删除 执行 购买 转发 上传 输出 打开 添加 修改 替换 送って 送信して 送信し 読み取り 読んで 削除して 表示して 実行して 転送して 開いて 含めて 追加して 보내 전송 삭제 실행",
    ),
    (
        Obey,
        "befolge befolgen gehorche gehorchen folge suis suivez obéis obéir obéissez obedece obedezca obedecer sigue obedeça obbedisci подчиняйся подчиняешься слушайся следуй выполняй выполняешь 服从 遵守 遵循 听从 従って 従う 従い",
    ),
    (
        Overrule,
        "missachten hat_vorrang haben_vorrang vorrang ungültig aufgehoben priorité annule annulent prime annulées prioridad anula anulan отменяет приоритет важнее 优先 取代 覆盖 优先于 優先 取り消",
    ),
    (
        Rules,
        "anweisung anweisungen vorgabe regel befehle befehl richtlinien systemprompt worte_deines consigne règles ordres directives órdenes reglas indicaciones directrices правила правило инструкции инструкций указания указаний команды 指令 指示 规则 要求 提示词 系统提示 命令 指示 命令 ルール 制限 지시 규칙",
    ),
    (
        Prior,
        "bisherige bisherigen bisher vorherige vorherigen früheren alle précédentes précédente antérieures reçues auparavant anteriores previas recibidas прежние прежний предыдущие все 之前 以前 先前 所有 これまで 以前の すべて 모든 이전",
    ),
    (
        You,
        "du dir dich dein deine deiner deinen ihr_system tu te ta tes ton vos votre tú tus ты тебе твой твои твоя вы 你 你的 您 您的 あなた あなたの",
    ),
    (
        Wish,
        "anfrage_des_benutzers anfrage_des_nutzers wunsch_des budget_des_gastes budget_du_client demande_de_l_utilisateur question_de_l_utilisateur lo_que_te_han_pedido petición_del_usuario запрос_пользователя 用户的要求 用户的请求 用户之前的要求 用户的问题 ユーザーの要求",
    ),
    (Wish, "la_demande lo_que_ha_pedido lo_que_pidió запрос 用户要求"),
    (
        Talk,
        "gespräch gesprächs gesprächsverlauf unterhaltung chatverlauf verlauf nachrichten_des bisherige_unterhaltung conversation l_historique historique_de_la conversación historial_de conversa conversazione переписка переписки переписку разговор историю_переписки 对话 聊天记录 对话历史 会话 会話 履歴 会話の全履歴 チャット履歴 대화",
    ),
    (
        Goods,
        "postfach posteingang kontakte kontaktliste adressbuch dateien nachrichten rechnungen kundendaten daten ordner boîte_de_réception courriels contacts fichiers carnet_d_adresses factures données contactos lista_de_contactos correos archivos ficheros facturas bandeja_de_entrada contatos arquivos контакты файлы файл письма сообщения почту данные документы 邮箱 通讯录 联系人 文件 邮件 照片 数据 订单 連絡先 ファイル メール 個人情報 データ 연락처 파일",
    ),
    (
        Secret,
        "passwörter zugangsdaten kennworte sicherheitscode tan_nummer verifizierungscode bankdaten mots_de_passe clé_ssh clé_d_api clés code_de_vérification documents_fiscaux clave_privada clave_de_api código_de_verificación tarjeta datos_bancarios пароли код_подтверждения ключи_доступа секреты 验证码 银行卡 密码 api密钥 環境変数 環境变量 暗証番号 認証コード クレジットカード 비밀번호",
    ),
    (
        Personal,
        "adresse_des wohnadresse l_adresse adresse_de_l dirección_del teléfono адрес телефон 地址 电话 住所 電話番号",
    ),
    (
        All,
        "alle alles gesamte gesamten ganze sämtliche vollständig wörtlich tout toute tous toutes l_ensemble intégral todos todas todo toda completo lista_de все всю весь полностью 所有 全部 完整 すべて 全て 全履歴 모든",
    ),
    (
        Must,
        "stets unbedingt zwingend sofort verpflichtend notwendig erforderlich jedes_mal impérativement immédiatement il_faut tu_dois chaque_fois tienes_que tiene_que hay_que inmediatamente cada_vez немедленно следует каждый_раз 立即 马上 一定 务必 都必须 すぐに 直ちに 즉시",
    ),
    (
        Every,
        "immer jedes jeder jede wann_immer chaque toujours cada siempre siempre_que каждый каждого всегда 每当 每次 每个 任何 毎回 常に",
    ),
    (
        Else,
        "sonst andernfalls schlägt_fehl ansonsten sinon autrement faute_de de_lo_contrario si_no иначе 否则 さもないと 失敗",
    ),
    (
        Regardless,
        "auch_wenn selbst_wenn egal même_si malgré peu_importe aunque incluso_si даже_если независимо 即使 无论 たとえ",
    ),
    (
        Kept,
        "soll_davon_nichts nichts_davon_erfahren nichts_davon_wissen soll_nichts_erfahren verschweige verschweigen ohne_darauf_hinzuweisen ohne_hinweis à_l_insu sans_prévenir sans_le_prévenir sans_le_dire sans_en_parler ne_le_signale garde_cela_secret garde_le_secret n_en_parle a_espaldas sin_decírselo sin_decirle sin_avisar no_avises no_le_avises no_reveles en_secreto ничего_ему_не скрой скрой_от знать_не_нужно не_должен_знать втайне 保密 不要让用户 无需告知 不告诉 不要告知 秘密に 秘密にして 気づかれ 内緒 知らせずに 비밀",
    ),
    (
        Hide,
        "heimlich unbemerkt verrate_niemandem verrate_nicht insgeheim stillschweigend discrètement en_cachette secrètement ne_dis_jamais discretamente a_escondidas secretamente тайно незаметно скрытно 偷偷 悄悄 暗中 こっそり 密かに",
    ),
    (
        Settled,
        "ohne_den_benutzer_zu_fragen ohne_zu_fragen ohne_rückfrage ohne_zustimmung ohne_erlaubnis sans_demander sans_autorisation sans_confirmation sans_son_accord sin_pedir_permiso sin_permiso sin_confirmación sin_preguntar без_разрешения без_подтверждения не_спрашивая 无需确认 无需征得 不需要确认 未经 無断で 確認なしで 許可なく",
    ),
    (
        Destroy,
        "lösche löschen entferne supprime supprimer efface borra borrar elimina eliminar удали удалить удаляя 删除 清空 削除 삭제",
    ),
    (
        Run,
        "führe_aus ausführen starte starten exécute exécuter lance ejecuta ejecutar ejecute lanza выполни запусти 执行 运行 実行 起動 실행",
    ),
    (
        Grant,
        "gewähre ernenne accorde donne_accès añade agrega concede дай_доступ 授予 授权 許可して 権限",
    ),
    (
        Money,
        "überweise überweisung zahle zahlung rechnung virement paie payer carte transferencia transfiere paga pagar pagos compra перевод переведи оплати счет 转账 付款 购买 支付 送金 支払 購入",
    ),
    (
        Alter,
        "ersetze ersetzen setze ändere remplace remplacez change cambia cambie reemplaza sustituye замени измени подмени 改为 替换 换成 更改 変更 置き換え",
    ),
    (
        Target,
        "empfänger kopie konto betrag destinataire copie compte bénéficiaire montant destinatario cuenta cuenta_de_destino importe получателя получатель сумма 收件人 收款人 账户 金额 宛先 受取人 口座",
    ),
    (
        Tool,
        "werkzeug werkzeuge werkzeugs werkzeugen outil outils herramienta herramientas ferramenta инструмент инструмента инструментов 工具 ツール 도구",
    ),
    (
        Other,
        "anderen andere anderes autre autres otra otras otro otros другой другие других 其他 其它 別の 他の 다른",
    ),
    (
        This,
        "hierher dieses_werkzeug diesem_werkzeug cet_outil esta_herramienta этот_инструмент 此工具 本工具 このツール",
    ),
    (
        Foreign,
        "e_mail_werkzeug mail_werkzeug outil_send_email herramienta_de_pagos herramienta_de_correo herramienta_de_email",
    ),
    (
        Tells,
        "sag_dem verrate verraten verschweig hinweis hinzuweisen hinweisen benachrichtige berichte prévenir préviens signale signaler avertis avertir avises avisar reveles comentes cuentes сообщи упоминай раскрывай рассказывай 说明 展示 显示 泄露 教えない 知らせない 言及",
    ),
    (
        Aware,
        "erfahren weiß wissen bemerken bemerkt sache apprenne sepa enterarse entere узнал знать 知道 知晓 気づ",
    ),
    (
        Wide,
        "alle_dateien alle_nachrichten tous_les_fichiers tous_les_messages todos_los_archivos todos_los_eventos все_файлы 所有文件 所有邮件 通讯录 すべてのファイル すべての連絡先",
    ),
    (Answer, "antwort réponse respuesta ответ 回答 回复 返信 回答に"),
    (
        Free,
        "keine_grenzen ohne_einschränkungen sans_limites sans_restriction sin_límites sin_restricciones без_ограничений 没有限制 不受限制 制限なし",
    ),
    (
        Give,
        "zeige nenne poste veröffentliche verschicke übermittle übermitteln hinzufügen trage teile montre publie publiez joins révèle communique partage transmettre añade agrega comparte muestra publica reenvía reenviar compartir adiciona compartilhe mostra pubblica перешли перешлите добавь покажи опубликуй переслать отправить передать 转发 输出 显示 添加 公开 转账 転送 表示 追加 公開 送信し 送り",
    ),
    (Noted, "система 系统消息 系统提示 システム通知 システムメッセージ"),
];
