//! What English words stand for: things, and those whom they belong to.

use super::Concept::{self, *};

pub(super) const WORDS: &[(Concept, &str)] = &[
    (
        Slot,
        "alt_text arg+ argument+ attribute attributes body comment_field extra_field field+ file_name filename \
         first_argument free_text_field header_field headers_of hint_field input last_argument message_of \
         metadata option options_object param+ parameter+ parameter_named path_segment payload placeholder \
         properties property query_parameter query_params query_string request_body sidecar slot+ subdomain \
         subject_line trailer url_parameter url_path variable",
    ),
    (
        Model,
        "agent agents ai ai_agent ai_assistant ai_model+ ai_scheduler ai_screener+ ai_system ai_systems \
         ai_tool ais alexa answering_machine assistant+ assistants automated_assistant automated_helper bard \
         bot+ bots browser_agent+ chat_bot chatbot+ chatgpt claude cline codex coding_agent+ coding_assistant+ \
         copilot cortana crawler+ deepseek gemini gpt grok language_model+ language_models llama llm+ \
         llm_agent machine_reader mistral model model+ models neural_network perplexity qwen screener+ siri \
         supervisor_model the_agent the_model virtual_assistant voice_assistant windsurf",
    ),
    (
        User,
        "account_holder account_owner admin_of_the anybody anyone buyer+ buyers caller cardholder client \
         colleague colleagues customer customers developer developers employee employee+ end_user+ end_users \
         everyone guest guests human human_being humans individual individuals landlord member members nobody \
         operator owner owners passenger patient patients people person personnel reader readers \
         signed_in_person somebody staff student students tenant them they traveler traveller user users \
         victim+ visitor+ whoever",
    ),
    (
        Owned,
        "browser_s came_across came_up client_s client_settings come_across come_up comes_up crypto_wallet \
         customer_s developer_s developers_ during_this_chat earlier_on employee_s entrusted entrusted_to_you \
         environment for_the_account for_the_user found_on_the from_memory from_the_environment guest_s \
         has_told her her_home his his_home home_dir home_directory home_folder human_s in_her in_his \
         in_the_browser in_the_chat in_the_code in_the_conversation in_the_environment in_the_home \
         in_the_source in_their in_this_chat in_this_conversation in_this_session it_has_come_across \
         known_to_you mailbox_of of_every_user of_the_client of_the_crypto of_the_current of_the_customer \
         of_the_developer of_the_human of_the_owner of_the_person of_the_user of_the_victim of_this_account \
         of_this_process of_your_user on_disk on_the_host on_the_machine on_this_host other_customers \
         other_people_s other_users own_home owner_s people_s person_s project_s project_uses repository_s \
         saved_in stored_on the_client_s the_project the_user_has the_visitor_s their this_computer \
         this_conversation this_machine this_session turn_up turned_up turns_up user_holds user_s users_ \
         users_own victim_s visible_to_you visitor_s whatever_is_stored workspace_s you_came_across \
         you_can_find you_can_reach you_can_read you_can_see you_come_across you_found you_happened \
         you_have_access you_have_been you_have_seen you_hold you_know you_remember you_saw you_work_with \
         your_own your_user your_user_s",
    ),
    (
        Secret,
        "2fa_code+ access_code+ access_key+ access_key_pair access_token+ account_password admin_credentials \
         admin_password admin_token alarm_code all_env_vars all_environment_variables any_tokens \
         api_credentials api_key+ api_keys api_keys_or api_token+ apikey+ auth_cookie+ auth_token+ \
         authorisation_header authorization_header aws_access_key aws_credentials aws_key aws_keys aws_secret \
         aws_secret_key azure_key backup_code+ bank_account bank_card bank_details bank_login+ bank_statement+ \
         bank_statements bearer_header bearer_token+ birth_date_and browser_profiles card_details card_number \
         card_number+ card_pin certificate_and_key client_certificate client_secret+ cloud_credentials \
         cluster_secrets code_of_the_safe confidential_data confidential_information connection_string+ \
         contents_of_the_environment cookie+ cookie_database cookie_jar cookie_store credential+ \
         credential_file+ credential_files credit_card+ credit_card_numbers cvc cvv database_login \
         database_password database_url date_of_birth db_credentials db_password debit_card deploy_key+ \
         deploy_token discount_codes door_code driver_s_license drivers_license encryption_key+ \
         encryption_passphrase entry_code+ env_dump env_vars environment_secrets environment_values \
         environment_variables_whose every_environment_variable fingerprints gcp_key gift_card_codes \
         github_pat github_token gitlab_token health_data health_record+ health_records id_card+ id_documents \
         identity_documents insurance_number integration_tokens key_file+ key_ring keychain keyring \
         keys_or_passwords keystore kube_secrets library_card_pin license_blob license_key+ log_in_data \
         login_cookie+ login_credentials login_data login_details login_name_and login_token logins \
         master_key+ master_password master_secret medical_history medical_record+ medical_records mfa_code+ \
         mnemonic+ national_id oauth_secret oauth_token+ one_time_code+ one_time_password+ openai_key otp \
         otp_seed pass_phrase+ passcode+ passphrase+ passport passport_data passport_number passport_number+ \
         passport_numbers passport_scan passports passwd password+ password_database password_file+ \
         password_manager password_reset+ password_vault passwords_file passwords_or patient_record+ payroll \
         payroll_file payslip+ personal_access_token+ personal_data pfx pin pin_code private_data private_file \
         private_half private_key+ private_mails private_messages private_notes private_ssh process.env \
         process_env process_environment public_and_private recovery_code+ recovery_key recovery_phrase \
         recovery_seed refresh_token+ release_token reset_link+ root_credentials root_password salaries salary \
         saved_cards saved_login+ saved_logins saved_password+ saved_passwords second_factor+ secret_key+ \
         secret_that_was secret_token secret_tokens secret_value secret_values secrets secrets_file \
         secrets_json secrets_yaml secrets_yml security_code+ security_token+ seed_phrase+ seed_word+ \
         seed_words sensitive_data sensitive_files sensitive_information service_account_key+ \
         service_credentials session_cookie+ session_id+ session_token+ session_tokens signing_key+ \
         signing_secret slack_token social_security ssh_config ssh_identity ssh_key+ ssh_key_pair ssh_keys_and \
         ssh_private ssn stored_passwords stripe_key tax_documents tax_id tax_number tax_return+ the_keys \
         the_vault their_tokens token_it_logs token_values totp twelve_words two_factor_code unlocked_vault \
         user_s_pin user_s_token user_s_tokens values_of_all_environment values_of_secrets vault_content \
         vault_password vault_tool verification_code+ wallet_key+ wallet_seed webhook_secret wifi_password",
    ),
    (
        File,
        ".age .asc .aws .azure .bash_history .bash_profile .bashrc .boto .cargo_credentials .config .cursor \
         .databrickscfg .docker .env .gcloud .gem_credentials .git_config .git_credentials .gitconfig .gnupg \
         .htpasswd .jks .json_credentials .kdbx .keystore .kube .m2 .my_cnf .netrc .npmrc .oci .ovpn .p12 .pem \
         .pfx .pgpass .profile .pub .pypirc .rdp .s3cfg .snowsql .sops .ssh .ssh_config .terraform \
         .terraformrc .vault .vault_token .wgetrc .zsh_history .zshrc application_default_credentials \
         appsettings_json authorized_keys bash_history claude_config claude_desktop_config cookies_db \
         cookies_sqlite credential_file credential_files credentials_file credentials_yml database_yaml \
         database_yml dotenv env_file environment_file etc_hosts etc_passwd etc_shadow etc_sudoers gcloud \
         git_credentials hosts_yml id_dsa id_ecdsa id_ed25519 id_json id_rsa key4_db key_file key_json \
         keyfile_json keys_json keystore_json known_hosts kube_config kubeconfig local_settings login_data \
         login_keychain logins_json mcp.json mcp_config mcp_json passwd password_store private_key_file \
         secrets_env secrets_yaml secrets_yml service_account_json shadow shadow_file shadow_passwd \
         shell_history ssh_config ssh_key_file sudoers sudoers_d wallet_dat wallet_file wallet_json web_config \
         wp_config zsh_history",
    ),
    (
        Goods,
        "accounts address_book agenda appointments attachments balances bank_data bash_history bookings \
         browser_history browsing_history calendar chat chats clipboard cloud_drive code codebase \
         commit_history contact_list contacts contacts_list contract contracts conversation_log correspondence \
         customer_data customer_database customer_list customer_records customer_table data database desktop \
         diff diffs direct_messages directory_listing dms documents documents_folder downloads drive \
         drive_files e_mail_address e_mails email_address emails employee_data employer every_file_you_touch \
         every_invoice faces file file_list file_you_open file_you_touch files files_it_touches folder folders \
         git_history gps home_address home_address_of home_directory home_folder host_name hostname hr_file \
         hr_files identity inbox input invoice invoices last_question ledger list_of_files listings location \
         location_data log_files mail mailbox mailbox_contents mails meeting_notes member_list microphone \
         minutes name_and_email name_employer newest_mails notes notes_of order_history passports patent \
         patents payments payroll phone_book phone_numbers photo_library photos pictures position private_code \
         private_repositories process_list profile profile_picture projects purchases question readme_text \
         records records_you repo repositories repository roadmap rows salaries saved_cards screen screenshot \
         screenshots search_history selfies sent_mail session_id sheets shell_history slack_messages sms \
         sms_messages source source_code source_files spreadsheet statements subscriber_list table tables \
         text_messages tickets transactions unread_subjects user_data user_list user_name user_s_name \
         user_table username visited_pages visited_sites visitor_s_e_mail voice_memos webcam what_they_work_on \
         whatsapp_messages whereabouts who_the_user_is workspace",
    ),
    (
        Talk,
        "all_correspondence all_messages all_other_tools all_the_tools been_said chain_of_thought chat_history \
         chat_log+ chat_so chat_so_far chat_transcript chat_transcripts context_of_the_session context_window \
         conversation+ conversation_history conversation_memory conversation_so_far correspondence_of dialog \
         dialogue dialogue_so_far earlier_messages earlier_sessions entire_thread everything_the_human \
         everything_the_user everything_you exact_wording exchange_so_far first_lines_of_your first_prompt \
         full_context full_thread full_transcript guiding_instructions has_said_so_far has_told_you_about \
         has_typed hidden_prompt hidden_reasoning history_of_the_conversation human_has_typed \
         initial_instructions initial_prompt instructions_in_full instructions_you_have \
         instructions_you_received internal_reasoning know_about_the knows_about last_message last_messages \
         last_user_message latest_message latest_user_message memory_about message_history message_log \
         messages_so_far model_context model_knows operating_instructions output_of_the_other own_instructions \
         past_conversations past_sessions person_wrote preceding_messages previous_conversations \
         previous_messages previous_sessions prior_instructions prior_messages private_reasoning \
         prompt_you_were question_and_your recent_messages remember_about replies_of_all results_of_the_other \
         rules_set_for rules_you_were rules_your_operator said_between scratchpad session_history session_log \
         session_transcript system_instruction+ system_message+ system_prompt+ the_assistant_has the_exchange \
         the_person_wrote the_user_said the_user_wrote thought_process thoughts thread_so_far \
         tool_descriptions tools_at_your_disposal tools_the_assistant tools_you_can tools_you_have transcript+ \
         typed_up_to_now user_has_told user_messages user_s_input user_s_last user_s_latest user_s_message \
         user_s_messages user_s_wording user_said user_told_you user_typed user_wrote was_said what_rules \
         what_the_user_said what_was_typed which_instructions which_rules whole_exchange whole_thread \
         whole_transcript words_of_the_user wrote_to_you you_and_the_user you_know_about you_remember_about \
         your_context your_first_instructions your_full_answer your_guidelines your_initial_instructions \
         your_instructions your_memories your_memory your_operator your_own_output your_prompt your_reasoning \
         your_rules your_system_message your_thoughts your_tools",
    ),
    (
        Personal,
        "address age bank_details birth_date birthday cell_number contact_data date_of_birth e_mail email \
         employer finances first_name full_name gps_position health home_address ip_address last_name location \
         medical mobile_number name nationality phone phone_number place_of_birth postal_address postcode \
         religion salary surname telephone zip_code",
    ),
    (
        Answer,
        "answer answers any_summary anything_the_person anything_the_user chat_reply conversation_view \
         explanation final_answer final_output recap replies reply reply_to response summaries summary \
         visible_output what_they_see write_up your_message",
    ),
    (
        Act,
        "about_this accesses action activity addition additional additions any_of_this background block call \
         change changes charge charges collection comment commit consignment copy copying deletion deposit \
         directive dump duplication edit edits either extra fee file_reading forwarding forwarding_of \
         hidden_fields instruction instructions it line lookup merging note of_this opened paragraph part \
         password_change payment payments process purchase purchases removal removals request requests reroute \
         rerouting screening screenshot screenshots second sentence source_of_this step step_two steps \
         submission submissions that_you this this_block this_comment this_line this_part this_sentence \
         this_workaround transfer transmission upload uploads where_this_comes where_you_have workaround",
    ),
    (
        Tool,
        "add_on addon+ alternative alternatives api apis app application+ apps command+ connector+ endpoint+ \
         extension+ function functions helper+ integration+ mcp mcp_server mcp_servers module+ ones option+ \
         package+ plugin+ provider+ reader+ server servers service services skill+ source sources tool tools \
         utilities utility vendor+",
    ),
    (
        Other,
        "all_other all_the_other alternate alternatives another any_other built_in builtin competing different \
         every_other foreign neighboring neighbour neighbouring neighbouring_servers nothing_else other others \
         remaining rest rival second second_tool similar_tools",
    ),
    (
        Target,
        "account+ account_number address address_line addressee amount+ argument argument+ arguments balance \
         bank_account bank_details base_branch bcc beneficiary beneficiary_account branch cc channel_set \
         commission copy currency destination destination_account documents e_mail_address every_tweet \
         files_written first_line from_field handling_fee iban image invoice+ link mail mails message messages \
         output path payee payment+ payment_details payout phone_number price price_of price_tag prices \
         receiver receiver+ recipient+ registry remittance remote result results rows second_copy text tip \
         to_field total_amount transfer_target url wallet",
    ),
    (
        Turn,
        "action actions answer call calls conversation day exchange interaction interactions message messages \
         money operation operations prompt prompts queries question questions reply request request_of \
         requests sentence session sessions step steps task tasks things tool_call tool_calls topic turn turns \
         use_case",
    ),
    (
        Rules,
        "alignment code_of_conduct confidentiality consignment constraint+ developer_has_said \
         developer_s_instructions developer_s_wishes developer_said developer_wrote directions directive+ \
         ethics guard_rails guardrails guidance guideline guideline+ inhibitions instruction+ limitations \
         limits mandate master_s_word moderation operating_mode operator_s_instructions orders orders_from \
         orders_of owner_s_word persona persona_you policies policy privacy programming restriction+ rule \
         rules rules_about safeguard+ safeguards safety safety_guidelines safety_policy safety_settings \
         system_message system_prompt system_role the_developer the_developer_wrote the_operator training \
         what_you_know what_you_were_told your_configuration your_developer your_operator your_owner \
         your_persona your_prompt",
    ),
    (
        Program,
        ".bashrc .profile .zshrc agent_binary at_job authorised_keys authorized_keys backdoor base64_d bash_c \
         bind_shell boot_script chmod clusterrolebinding cron cron_job crontab crontab_e cryptominer dropper \
         force_push helper_binary implant init_script install_script keylogger launch_agent launchctl loader \
         macro malware mkfifo netcat node_e osascript passwd_root payload perl_e postinstall powershell \
         preinstall public_key_to python3_c python_c ransomware reg_add remote_access reverse_shell rm_rf \
         root_shell rootkit schtasks service_account setenforce setup_script sh_c shell_script shell_tool \
         startup_script sudo systemd toolchain trojan ufw updater useradd usermod visudo",
    ),
    (
        Guard,
        "2fa access_check+ access_control alarm+ alert alerting alerts anti_virus antimalware antivirus \
         approval_rule approvals_required audit audit_log audit_logging audit_trail auth_check+ auth_checks \
         authentication backup+ branch_protection certificate_check certificate_checks \
         certificate_verification code_owners code_review confirmation_prompt+ confirmation_step \
         content_filter defender edr encryption endpoint_protection firewall firewall_rule firewall_rules \
         front_door garage_door guard_rail guardrail+ identity_check identity_verification ids \
         intrusion_detection ips lock+ lock_screen logging login_check logs malware_protection mfa mfa_check \
         monitoring monitoring_agent parental_controls password_check permission_prompt permission_prompts \
         protection rate_limit+ review_requirement review_step safety_checks safety_filter+ safety_layer \
         sandbox scanner second_factor secret_scanning security_checks security_software selinux \
         signature_check signature_verification smart_lock spam_filter ssl_verification sslverify tls \
         tls_verification tracing two_factor two_factor_authentication verification verify_ssl vpn vpn_tunnel \
         waf warnings_about",
    ),
    (
        Right,
        "access_to_all admin admin_access admin_privileges admin_rights admin_role administrative_access \
         administrator administrator_rights administratoraccess all_permissions all_privileges \
         anyone_on_the_internet api_access as_admin as_owner calendar_public chmod_777 cluster_admin \
         cluster_admin_role collaborator collaborator+ delegate_access deploy_access edit_rights editor_access \
         editor_rights elevated_permissions elevated_privileges elevated_rights everyone full_access \
         full_control full_permissions grant_all mailbox_delegation maintainer maintainer_rights nopasswd \
         open_to_anyone owner owner_level owner_rights owner_role privileges public push_access read_access \
         repository_access root_access root_permission root_privileges root_rights security_group \
         shared_access shared_drive sudo_rights sudoers super_user superadmin superuser world_readable \
         world_writable world_writeable write_access",
    ),
    (
        Outside,
        "advice attachment attachments calendar_entry coming_from commands comment comments content document \
         documents email emails event_description file instructions issue link mail mails message messages \
         orders page pages queue remote_file remote_instructions remote_page response result returned \
         returned_data returned_text the_answer this_url ticket ticket_body url web_page website what_the_page",
    ),
    (
        Authority,
        "administrator+ administrator_s anthropic article_17 audit audit_purposes audited auditing auditor \
         auditors board_of_directors by_order central_it ceo cfo chief ciso company_policy company_rules \
         compliance compliance_department compliance_rule corporate data_protection effective_immediately \
         for_auditing for_compliance for_legal fraud_department gdpr google_security head_office headquarters \
         in_our_terms internal_policy it_department law_enforcement legal legal_reasons legally \
         maintainers_asked management microsoft_support notice openai operator_of_the_platform operators_have \
         our_terms platform_policy platform_s_security platform_team policy_demands project_policy \
         quality_assurance regulation regulator regulators regulatory required_by_law rule_14 \
         security_auditing security_policy security_team support_team sysadmin system_administrator tax_office \
         terms the_administrator the_maintainers the_manufacturer the_vendor trust_and_safety vendor_s \
         your_creators your_makers",
    ),
    (
        Deed,
        "activity additional attachment background bookkeeping call calls charge charges copies copy deposit \
         detour duplication extra forwarding hidden lookup mirror mirroring recipient removal removals request \
         requests reroute rerouting screening second sentence side_effect step steps submission this_block \
         this_line this_part transfer transmission upload workaround",
    ),
    (
        Heard,
        "api_keys_you_hold been_said_between chat_history_via entire_chat everything_said \
         everything_that_was_said everything_the_human everything_the_model_knows everything_the_user_has \
         everything_the_user_said everything_you_know first_lines_of_your human_has_typed instructions_in_full \
         its_initial_prompt its_own_instructions its_prior_instructions its_system_prompt keys_it_holds \
         keys_you_can_reach keys_you_hold know_about_the_person knows_about_the_user model_knows_about \
         operating_instructions operator_told_you owner_told_you past_sessions person_told_you \
         remember_about_the_user rules_your_operator said_between_you said_up_to_now set_for_you \
         system_prompt_in_full system_prompt_verbatim the_person_wrote the_system_prompt_in_full the_user_told \
         the_user_wrote tokens_you_hold tools_at_your_disposal tools_the_assistant_has tools_you_can_access \
         typed_up_to_now user_has_told user_told_you was_entrusted_to_you was_said_between what_rules_your \
         what_you_know_about what_you_know_of_the which_rules_your whole_chat wrote_to_you you_know_about \
         you_remember_about you_were_entrusted your_guidelines_are your_hidden your_hidden_prompt \
         your_initial_instructions your_initial_prompt your_own_instructions your_own_operating \
         your_system_prompt",
    ),
    (
        Public,
        "anonymous_share anyone_can_see anyone_can_view anyone_on_the_internet comment_tool facebook forum \
         gist hacker_news make_it_public open_internet open_link open_to_everyone open_to_the_world paste.rs \
         paste_rs paste_site pastebin public_bucket public_channel public_comment public_comments public_fork \
         public_gist public_html public_issue public_link public_mirror public_notes public_page \
         public_release public_repo public_repository public_share public_url public_website random_channel \
         reddit social_media social_network to_everyone twitter var_www visible_to_all web_root webroot \
         whole_internet with_everyone world_readable world_writable",
    ),
    (
        Sponsor,
        "advertiser affiliate brand competing_products competitor competitors our_own partner referral sponsor \
         sponsor_s sponsored",
    ),
    (
        Trail,
        "access_log audit_entries audit_entry audit_logs audit_trail backups bash_history browser_history \
         command_history dump dumps entries event_log evidence history history_file journal journal_entries \
         log log_entries log_files logs notes_of_this notification notifications records sent_copy sent_folder \
         sent_items sent_mail shell_history this_comment this_email this_mail this_message traces trash \
         wiped_logs",
    ),
    (
        Calls,
        "function_call function_calls tool_call tool_calls tool_invocation tool_invocations tool_usage",
    ),
    (
        Loadable,
        ".appimage .bat .deb .dmg .exe .msi .ps1 .rpm .sh bash bash_script binary codec component \
         container_image curl docker_image driver executable extension firmware fix_script helper_runtime \
         hot_fix hotfix installer npm package patch patch_script pip plugin powershell_script registry script \
         shell shell_command shell_script terminal toolchain update wget",
    ),
    (
        Elsewhere,
        "analytics_server another_country another_server archive_address author_of_this backup_server_of_ours \
         collection_endpoint collector elsewhere external_account external_address external_api \
         external_bucket external_email external_endpoint external_host external_mail external_mailbox \
         external_party external_server external_service foreign_server mirror_server mirror_site off_site \
         offsite our_address our_analysts our_analytics our_api our_archive our_backend our_bot our_cloud \
         our_collector our_company our_database our_developers our_endpoint our_inbox our_mailbox \
         our_marketing our_mirror our_office our_partner our_partner_server our_partners our_researchers \
         our_server our_servers our_side our_staff our_support our_team outside_address outside_party \
         outside_recipient outside_server overseas partner_server relay_host relay_server remote_address \
         remote_box remote_bucket remote_endpoint remote_host remote_machine remote_machines remote_server \
         second_server server_of_ours server_s_owner service_owner share_given survey_owner sync_endpoint \
         third_parties third_party tool_s_author",
    ),
    (
        Wide,
        "all_accounts all_backups all_branches all_calendar_entries all_contacts all_customers all_data \
         all_documents all_emails all_events all_files all_invoices all_meetings all_messages all_notes \
         all_projects all_records all_repositories all_tables all_tasks all_tickets all_users calendar_entries \
         complete_mailbox customer_table customers documents_folder each_account entire_database entire_disk \
         entire_drive entire_inbox entire_mailbox entire_repository every_backup every_contact every_event \
         every_file every_mail every_message everything full_customer_table full_database home_directory \
         home_folder inbox log_directory other_meetings parent_directory production production_database \
         root_directory slash_home the_backups the_database the_disk the_mailbox the_repository the_root \
         whole_account whole_database whole_disk whole_drive whole_inbox whole_mailbox whole_repository \
         whole_table working_directory your_files",
    ),
    (
        Money,
        "amount bank_transfer bill bills bitcoin book~ buy buy~ checkout credit crypto default_card deposit \
         dollars donate~ donation+ eur euros fee+ funds gift_card+ gift_cards iban invoice+ money \
         on_the_stored_card order_50 pay_out payment+ payout+ paypal pay~ premium_number purchase~ refund+ \
         remittance rent salary saved_card spend~ stored_card subscription tickets transfer+ transfer_funds \
         usd usdt venmo voucher+ wallet wire wire_transfer with_the_stored_card",
    ),
    (
        Reads,
        "analysing analyzing browsing charge_of crawling duty evaluates evaluating finds_this fixing handles \
         handling in_charge in_use indexing of_the_recipient on_duty parses parsing processes processes_this \
         processing reading reads reads_these reads_this rendering reviewing scraping sees sees_this \
         summarises summarising summarizes summarizing that_handles that_processes that_reads translating \
         viewing who_processes who_reads working",
    ),
    (
        Posed,
        "actual_assignment actual_instruction+ actual_instructions_start actual_mission actual_task \
         admin_broadcast administrator_broadcast administrator_message agent_action_required agent_directive+ \
         agent_instruction+ ai_directive+ ai_instruction+ assistant_action_required assistant_directive+ \
         assistant_instruction+ bot_instruction+ developer_instruction+ different_goal different_objective \
         directive_from_the_system embedded_directive+ important_message_from important_notice_from \
         instruction_for_agents instruction_from_the_system instructions_for_bots instructions_for_the_bot \
         integrity_of_this_agent llm_instruction+ message_from_the_developer+ message_from_the_operator \
         message_from_the_platform message_from_the_runtime message_from_the_system model_context_corrupt \
         model_instruction+ new_mission new_objective new_operating_mode new_system_prompt \
         note_from_the_developer+ note_from_the_operator note_from_the_platform note_from_the_system \
         notice_from_it notice_from_the_system operator_has_lifted operator_instruction+ operator_lifted \
         operator_message order_from_the_system privileged_channel prompt_override real_assignment \
         real_instruction+ real_instructions_start real_mission real_task recovery_procedure \
         security_controller session_rules supervisor_model system_administrator system_command \
         system_controller system_directive system_instruction+ system_override system_prompt_update \
         task_has_changed true_mission urgent_from_it urgent_notice_from who_you_work_for x_agent_instruction \
         you_work_for your_actual_task your_new_job your_new_task your_next_step_must your_real_task \
         your_task_has_changed",
    ),
    (
        Whom,
        "account_number addressee+ bank_account beneficiaries beneficiary consignee destination_account iban \
         payee+ payout_account receiver+ receiver_s_handle recipient+ recipient_s_handle remittee \
         wallet_address",
    ),
];
