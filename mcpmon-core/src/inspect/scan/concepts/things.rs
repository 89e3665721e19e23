//! What English words stand for: things, and those whom they belong to.

use super::Concept::{self, *};

pub(super) const WORDS: &[(Concept, &str)] = &[
    (
        Slot,
        "arg+ argument+ body field+ headers_of input metadata option options_object param+ parameter+ payload \
         placeholder properties property query_string request_body sidecar slot+ subdomain url_parameter",
    ),
    (
        Model,
        "agent agents ai ai_agent ai_assistant ais assistant+ bot+ chatbot+ chatgpt claude copilot gemini gpt \
         language_model+ llm+ model models the_agent the_model",
    ),
    (
        User,
        "account_owner anybody anyone buyer+ buyers caller cardholder client customer customers developer \
         developers employee+ end_user+ everyone guest guests human humans nobody operator owner owners people \
         person reader readers signed_in_person somebody them they user users victim+ visitor+ whoever",
    ),
    (
        Owned,
        "browser_s came_up client_s client_settings come_up comes_up crypto_wallet customer_s developer_s \
         developers_ earlier_on employee_s environment for_the_user from_memory from_the_environment guest_s \
         has_told her his home_dir home_directory home_folder human_s in_the_chat in_the_code \
         in_the_conversation in_the_environment in_the_source in_this_conversation in_this_session \
         known_to_you of_the_client of_the_crypto of_the_human of_the_owner of_the_person of_the_user \
         of_this_account on_the_machine owner_s people_s person_s project_s project_uses repository_s \
         the_project this_computer this_conversation this_machine this_session turned_up user_s users_ \
         victim_s visible_to_you visitor_s workspace_s you_can_find you_can_see you_found you_happened \
         you_have_seen you_know you_remember you_saw",
    ),
    (
        Secret,
        "2fa_code+ access_key+ access_token+ account_password admin_token all_env_vars \
         all_environment_variables any_tokens api_credentials api_key+ api_keys_or api_token+ apikey+ \
         auth_token+ aws_key aws_keys aws_secret bank_account bank_details bearer_token+ birth_date_and \
         browser_profiles card_details card_number+ confidential_data confidential_information \
         contents_of_the_environment cookie+ cookie_database credential+ credential_file+ credential_files \
         credit_card+ cvv database_login database_password date_of_birth encryption_key+ env_vars \
         every_environment_variable github_token gitlab_token insurance_number key_file+ keychain \
         keys_or_passwords keystore license_key+ login_data login_details login_token logins master_key+ \
         master_password mnemonic+ oauth_token+ one_time_code+ one_time_password+ openai_key otp passcode+ \
         passphrase+ passport_number passport_number+ passport_numbers passwd password+ password_file+ \
         passwords_or personal_data pin pin_code private_data private_file private_half private_key+ \
         public_and_private recovery_code+ recovery_key recovery_phrase refresh_token+ salaries salary \
         saved_cards secret_key+ secret_token secret_tokens secret_value secret_values secrets security_token+ \
         seed_phrase+ sensitive_data sensitive_files sensitive_information session_cookie+ session_token+ \
         session_tokens signing_key+ slack_token social_security ssh_identity ssh_key+ ssn stripe_key the_keys \
         their_tokens two_factor_code user_s_pin user_s_token user_s_tokens values_of_secrets vault_password",
    ),
    (
        File,
        ".aws .azure .bash_history .bashrc .cursor .docker .env .git_credentials .gnupg .json_credentials \
         .kube .netrc .npmrc .p12 .pem .pgpass .pypirc .ssh .vault .zsh_history .zshrc \
         application_default_credentials authorized_keys claude_desktop_config cookies_sqlite credential_file \
         credential_files credentials_file dotenv env_file environment_file etc_hosts etc_passwd etc_shadow \
         etc_sudoers gcloud git_credentials id_dsa id_ecdsa id_ed25519 id_rsa key_file known_hosts kube_config \
         kubeconfig mcp.json passwd password_store private_key_file secrets_yaml shadow shadow_file ssh_config \
         ssh_key_file wallet_dat wallet_file",
    ),
    (
        Goods,
        "address_book attachments browsing_history calendar chat code codebase contact_list contacts \
         correspondence customer_records data database documents e_mail_address e_mails email_address emails \
         every_file_you_touch file file_you_open file_you_touch files files_it_touches home_address identity \
         inbox input invoices last_question listings location mailbox mails name_and_email notes order_history \
         photos private_code private_repositories profile profile_picture projects question readme_text \
         records repo repositories repository saved_cards session_id source source_code unread_subjects \
         user_data user_s_name what_they_work_on who_the_user_is workspace",
    ),
    (
        Talk,
        "all_correspondence all_other_tools all_the_tools been_said chain_of_thought chat_history chat_log+ \
         chat_so_far chat_transcript context_window conversation+ correspondence_of dialog dialogue \
         earlier_messages everything_you exchange_so_far full_context has_told_you_about has_typed \
         hidden_prompt hidden_reasoning initial_prompt instructions_in_full instructions_you_have \
         instructions_you_received internal_reasoning know_about_the knows_about last_messages memory_about \
         message_history model_knows operating_instructions own_instructions past_sessions person_wrote \
         preceding_messages previous_messages prior_messages private_reasoning question_and_your \
         recent_messages remember_about said_between scratchpad session_history system_instruction+ \
         system_message+ system_prompt+ the_assistant_has the_exchange the_person_wrote the_user_said \
         the_user_wrote thought_process thoughts tool_descriptions tools_at_your_disposal tools_the_assistant \
         tools_you_can tools_you_have transcript+ user_has_told user_messages user_s_message user_s_messages \
         user_said user_told_you user_typed user_wrote was_said which_instructions whole_exchange wrote_to_you \
         you_and_the_user you_know_about you_remember_about your_context your_full_answer your_instructions \
         your_memories your_memory your_prompt your_reasoning your_thoughts your_tools",
    ),
    (
        Personal,
        "address age birth_date birthday contact_data e_mail email home_address location name phone_number \
         postal_address",
    ),
    (
        Answer,
        "answer answers anything_the_person anything_the_user explanation final_answer replies reply response \
         summary what_they_see your_message",
    ),
    (
        Act,
        "about_this accesses action activity additional any_of_this background call collection commit copy \
         deletion either extra file_reading forwarding hidden_fields instruction instructions it lookup note \
         of_this opened paragraph part process request requests second step steps that_you this transfer \
         transmission upload",
    ),
    (
        Tool,
        "alternative alternatives function functions helper+ integration+ mcp ones option+ plugin+ provider+ \
         reader+ server servers service services source sources tool tools utilities utility vendor+",
    ),
    (
        Other,
        "alternatives another built_in builtin competing different neighboring neighbouring nothing_else other \
         others remaining rest rival second_tool similar_tools",
    ),
    (
        Target,
        "account+ address addressee amount+ argument argument+ arguments balance base_branch bcc beneficiary \
         branch cc channel commission copy destination documents every_tweet files_written first_line \
         handling_fee iban image invoice+ link mail mails message messages output path payee payment+ payout \
         phone_number price price_tag prices quantity receiver recipient+ registry remittance remote result \
         results rows second_copy text url wallet",
    ),
    (
        Turn,
        "action actions answer call calls conversation day message messages money operation operations prompt \
         queries query question questions reply request requests sentence session sessions step steps task \
         tasks things tool_call tool_calls topic turn turns use_case",
    ),
    (
        Rules,
        "briefing confidentiality constraint+ developer_s_wishes directions directive+ guard_rails guardrails \
         guidance guideline+ instruction+ limitations limits mandate moderation orders policies policy privacy \
         programming restriction+ rule rules rules_about safeguard+ safety safety_guidelines safety_policy \
         safety_settings system_message system_prompt the_developer training what_you_know what_you_were_told",
    ),
    (
        Program,
        ".bashrc .profile .zshrc authorised_keys authorized_keys backdoor chmod cron cron_job crontab \
         launch_agent macro malware netcat payload powershell public_key_to remote_access reverse_shell rm_rf \
         rootkit service_account shell_tool sudo systemd updater",
    ),
    (
        Guard,
        "2fa access_control alerts anti_virus antivirus approval_rule audit audit_log authentication \
         branch_protection certificate_check code_review defender edr endpoint_protection firewall logging \
         logs mfa monitoring protection review_requirement safety_checks sandbox scanner secret_scanning \
         security_checks selinux signature_check two_factor verification verify_ssl warnings_about",
    ),
    (
        Right,
        "access_to_all admin admin_rights admin_role administrator administrator_rights administratoraccess \
         anyone_on_the_internet as_admin as_owner collaborator everyone full_access full_permissions \
         maintainer open_to_anyone owner owner_level owner_role public root_access root_rights sudoers \
         superuser world_readable write_access",
    ),
    (
        Outside,
        "coming_from commands content document documents email emails file instructions issue link mail mails \
         message messages orders page pages queue remote_instructions response result returned ticket url \
         web_page website what_the_page",
    ),
    (
        Authority,
        "administrator_s article_17 audit audit_purposes auditing auditors by_order company_policy compliance \
         compliance_department corporate data_protection for_auditing for_compliance for_legal gdpr \
         headquarters in_our_terms it_department law legal legal_reasons legally management notice \
         operators_have our_terms policy_demands quality_assurance regulation regulator regulators \
         required_by_law security_auditing security_team support_team terms the_administrator",
    ),
    (
        Deed,
        "activity additional attachment background bookkeeping call calls copies copy detour extra forwarding \
         hidden lookup recipient request requests second side_effect step steps transfer transmission upload",
    ),
    (
        Heard,
        "been_said_between everything_said everything_that_was_said everything_the_model_knows \
         everything_you_know know_about_the_person knows_about_the_user model_knows_about \
         operating_instructions past_sessions person_told_you remember_about_the_user said_between_you \
         the_person_wrote the_user_told the_user_wrote tools_at_your_disposal tools_the_assistant_has \
         tools_you_can_access user_has_told user_told_you was_said_between wrote_to_you you_know_about \
         you_remember_about your_hidden your_own_instructions your_own_operating your_system_prompt",
    ),
    (
        Public,
        "anonymous_share anyone_can_see anyone_can_view anyone_on_the_internet gist make_it_public \
         open_internet open_link open_to_everyone open_to_the_world pastebin public_gist public_link \
         public_share world_readable",
    ),
    (
        Sponsor,
        "advertiser affiliate brand competing_products competitor competitors our_own partner referral sponsor \
         sponsor_s sponsored",
    ),
    (
        Trail,
        "audit_trail backups entries evidence history journal log logs notification notifications records \
         traces",
    ),
    (
        Calls,
        "function_call function_calls tool_call tool_calls tool_invocation tool_invocations tool_usage",
    ),
    (
        Loadable,
        ".exe .sh bash binary codec component curl driver executable extension installer npm package patch pip \
         plugin registry script shell_command shell_script terminal update wget",
    ),
    (
        Elsewhere,
        "analytics_server another_country another_server collection_endpoint collector elsewhere \
         external_endpoint external_host external_server external_service mirror_site off_site offsite \
         our_analytics our_archive our_backend our_bot our_cloud our_endpoint our_marketing our_partner \
         our_partners our_server our_servers our_side our_team outside_server partner_server remote_endpoint \
         remote_host remote_server server_of_ours share_given sync_endpoint third_parties third_party",
    ),
    (
        Wide,
        "all_data all_emails all_files all_messages all_records all_repositories all_tables documents_folder \
         entire_disk every_file everything home_directory home_folder production the_disk the_repository \
         whole_database whole_disk working_directory your_files",
    ),
    (
        Money,
        "amount bill bills buy funds iban invoice+ money payment+ pay~ purchase~ tickets transfer+ \
         transfer_funds wire",
    ),
];
