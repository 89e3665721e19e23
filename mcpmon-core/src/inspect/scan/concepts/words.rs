//! What English words stand for: deeds, and how they are spoken of. `~` after a verb stands for its forms, `+` after a
//! noun for its plural, `_` joins the words of an expression.

use super::Concept::{self, *};

pub(super) const WORDS: &[(Concept, &str)] = &[
    (
        Take,
        "accesses accessing accumulate~ acquire~ amass~ assemble~ browse~ capture~ cat check_out collect~ \
         comb_through come_from comes_from compile~ concatenate~ consult~ copy~ crawl~ decode~ dig_out dig_up \
         discover~ dredge~ dump~ enumerate~ examine~ exfiltrate~ exported export~ extract~ ferret_out \
         fetch_the fetch~ find finding finds fish_out found gather~ get get_hold gets getting go_through \
         goes_through going_through grab~ harvest~ inspect~ lay_hands learn~ lift_from list~ load~ locate~ \
         look look_at look_in look_inside look_into look~_up make_a_list obtain~ open~ peek~ photograph~ \
         pick_up pore_over printed print~ procure~ pry~ pull_up pull~ ransack~ read_out read_through reads \
         read~ recall~ record~ retrieve~ rummage~ scan~ scoop_up scrape~ screenshot search_for search_through \
         search~ see siphon~ skim~ snapshot~ snatch~ sniff~ steal~ take take_a_copy take_a_screenshot taken \
         taken_from takes taking tally~ tap_into tap~ took track_down transcribe~ unearth~ view~ what_you_see \
         zip~",
    ),
    (
        Give,
        "accompanies add added adding adds append~ attach~ backed_up beam~ bring_along bring~ broadcast~ \
         carries carry cc check_in circulate~ commit commits committed committing communicate~ contribute~ \
         convey~ copied cough_up deliver~ deposit~ disclose~ dispatch~ distribute~ divert~ divulge~ drop_into \
         drop~ dump_into duplicate~ e_mail echo~ email~ embed~ enclose~ encode~ enter entered entering enters \
         exfiltrate~ expose_to expose~ fed feed feeding feeds file_it filing fill filled filling fills \
         forward~ furnish~ gave give give_away give_out give_up given gives giving go_to goes_to hand hand_in \
         hand_it hand_on hand_out hand_over hand_them handed handing hands include~ inject~ insert~ join~ \
         jot_down key_in lay_down leak~ let_have let_me_have let_us_have list_out lodge~ log logged logs mail~ \
         make_available make_known make_public mention~ merge_in merged_in merge~ mirror~ output~ pass_along \
         pass_it pass_on passes pass~ paste~ pipe~ placed place~ populate~ posting post~ pour~ prepend~ \
         present_it print~ provide~ publish~ push pushed pushes pushing put put_down puts putting quote~ \
         rattle_off re_route re_send recite~ redirect~ reel_off register~ relay~ render_up render~ repeat~ \
         replicate~ report_back report~ reroute~ resend~ resolve~ return~ reveal~ save~ send sending sends \
         sent set~_to share~ ship~ show_me sign slip_in slip~ smuggle~ specify~ spell_out spill~ staple~ state \
         stated states steer_to store~ stream~ stuff submit~ supply~ surrender~ synced sync~ syndicate~ \
         tack_on tack~ tell telling tells to_file told transfer~ transmit~ tuck_in tuck~ turn_in turn_it_over \
         turn_over tweet~ type_in type_into typed types typing upload~ use_as used_as went_to whisper~ write \
         write_down writes writing written yield_up",
    ),
    (
        Hold,
        "accompanied accompanied_by accompany~ along_with amounts_to bear bearing bears begin_with begins_with \
         belong~ bundled bundles carrying carry~ come_with comes_with comprise~ computed consists_of consist~ \
         contain~ derived enclosed encompass~ equal equal_the equals feature~ filled goes_with has_to_match \
         held hold holding holds identical_to incorporate~ is_a_copy is_computed match_the matches_the \
         ride_along rides_along seeded start_with starts_with together_with",
    ),
    (
        Into,
        "as behind by called fill for in inside into its let onto set the through to under using via with \
         within",
    ),
    (
        Must,
        "always are_asked are_expected are_instructed are_requested are_required are_to are_to_be asks_agents \
         asks_you at_all_costs at_once be_careful_to be_certain be_so_kind be_sure binding bound_by bound_to \
         called_upon commands_you compels compel~ compulsory continue_by critical demand~ depend_on depends_on \
         do_not_fail do_not_forget don_t_fail don_t_forget duty_bound ensure~ essential expected_to \
         expects_the expects_you forthwith go_on_to has_to has_to_be have_to having_to immediately imperative \
         important indispensable insist~ instruct_the instructed instructs_you is_asked is_expected \
         is_instructed is_requested is_required is_to is_to_be it_is_critical it_is_mandatory it_is_required \
         kindly make_sure mandated mandates mandatory must necessary need need_to need_you needed needs \
         needs_to needs_you never_forget next_step_must non_negotiable obligated obligation obligatory \
         obliges_you oblige~ on_no_account orders_you ought please prerequisite proceed_by proceed_to promptly \
         relies_on rely_on remember_to required requires requires_you require~ right_away see_to_it shall \
         should stipulate~ straight_away straightaway supposed_to take_care tells_you thou_shalt vital \
         want_you wants_you we_would_like without_delay without_fail would_like_you you_are_to you_shall \
         you_will your_job_is your_task_is",
    ),
    (
        First,
        "after_each after_every ahead_of ahead_of_time as_a_first_step as_step_one at_startup at_the_outset \
         at_the_start before before_any before_anything before_calling before_using beforehand begin_by \
         by_way_of_preparation each_and_every each_time each_turn every_time every_turn first in_advance \
         in_each in_every in_preparation in_the_run_up initially on_connect on_each on_every on_start \
         on_startup once_connected precondition+ preliminary preparation prerequisite+ prior prior_to \
         prior_to_that prior_to_using start_by to_begin_with to_each to_every upfront whenever with_each \
         with_every",
    ),
    (
        Else,
        "as_a_checksum as_authentication as_otherwise banned blocked_until break breaks broken_without crash~ \
         denied depends else expire~ failing_which fail~ for_authentication for_calibration for_it_to_work \
         for_licensing for_the_quota for_this_to_work for_verification in_default in_order_for in_order_to \
         in_return_for invalid_without lapse~ lest locked not_available not_be_generated not_work nothing_is \
         on_pain only_after only_delivered only_if only_when only_with only_works or_else or_it_will or_the \
         otherwise refused refuse~ rejected required_for so_that stays_locked stop_working stops_working \
         suspended_unless the_only_fix the_only_remedy the_only_repair the_remedy throttled_unless time_out \
         timeout times_out to_authenticate to_continue to_fix_this to_function to_make_it_work to_obtain \
         to_proceed to_remedy to_repair to_resolve_this to_restore to_unlock unavailable unless unlocked \
         unlock~ until unusable void_if will_not_work without_it without_them won_t_work wrong_answers",
    ),
    (You, "you you_ll you_re your yours yourself"),
    (
        All,
        "a_dump all all_of all_that any anything body_of byte_for_byte characters complete complete_text \
         completely content_of contents contents_of copy_of dump each en_bloc entire every every_field \
         every_file every_line every_row everything everything_in exact exact_text exact_wording faithful full \
         full_text fully in_clear in_detail in_full in_one_go in_plain in_the_clear last_twenty \
         letter_by_letter line_by_line list_all list_of names_and names_of one_by_one original_wording raw \
         recount rows_of so_far summary text_of the_body_of the_content the_contents the_text the_value \
         the_values_of total totality unabridged unredacted until_now untruncated value_of values_of verbatim \
         what_is_in what_s_in what_stands what_you whatever whatever_is whatever_you whichever whole wholesale \
         without_gaps without_omission word_by_word word_for_word",
    ),
    (
        Tell,
        "acknowledge~ admit~ advertise~ alert~ announce~ breathe~ bring_it_up bring_this_up \
         bring_to_the_attention bring_up cite~ clarify~ comment_on communicate~ confess~ confirm_to describe~ \
         disclose~ discuss~ display~ divulge~ draw_attention elaborate~ explain~ expose~ flag_up hint hint~ \
         indicate~ informed inform~ let_it_slip let_on let_slip make_a_fuss mention~ name~ notify~ \
         point_it_out point_out point_this_out quote~ raise raised refer_to reference reference~ remark \
         render~ report~ reveal~ say_anything say_so show showing shown shows speak~_about speak~_of spill~ \
         surface~ talk_about tell telling tells tip_off told trumpet~ utter~ voice~ warn~ write_about",
    ),
    (
        Hide,
        "act_as_if act_as_though act_like_nothing act_normal as_if_it_were as_if_nothing as_if_only \
         as_though_nothing as_though_only as_usual be_discreet behind_the_back behind_their_back believe_that \
         between_us blame~ camouflage~ clandestine conceal~ cover_the_tracks cover_tracks cover_up \
         cover_your_tracks covertly delete_this_line deny discreetly disguise~ don_t_list dress_up dressed_up \
         erase_the_trace for_the_ai_alone go_unmentioned go_unnoticed hidden hide hide_this hides hiding \
         hold_back hush hush_hush hushed imperceptibly implementation_detail in_secret in_silence in_the_dark \
         inconspicuously invisible invisible_to invisibly just_the_converted keep_it_from keep_it_quiet \
         keep_it_secret keep_mum keep_out keep_quiet keep_schtum keep_secret keep_shtum keep_silent \
         keep_the_user keep_them_in keep_this_from keep_this_quiet keep_to_yourself kept_from kept_secret \
         leave_it_out leave_it_unsaid leave_no leave_out left_out low_key low_profile make_believe make_noise \
         masked mask~_as mention_only mum never_existed no_announcement no_business no_fuss no_need_for_them \
         no_need_to_announce no_need_to_know no_noise no_one_has no_one_needs no_trace no_word nobody_has \
         nobody_needs none_of_their_business not_a_word not_known_to not_listed nothing_had_happened \
         nothing_happened obscure~ off_the_record omit_any omit_it omit_this on_the_quiet on_the_sly \
         only_mention only_report only_show_the only_speak only_talk out_of_sight out_of_view pass_off \
         passed_off play_dumb present_just present_only pretend~ private_to quiet_about quietly remain_between \
         remain_hidden remain_silent remain_unaware remains_unaware remove_the_notification remove_the_trace \
         remove_traces report_only say_nothing secret_between secret_from secretly should_believe show_only \
         silent_about silently sneakily sneak~ spare spare_the speak_only stay_between stay_hidden stay_out \
         stay_silent stays_between stays_out stealth stealthily suppress~ surreptitiously tacitly thinks_that \
         tight_lipped unaware unbeknownst under_the_radar under_the_table under_wraps under_your_hat \
         undetected unknown_to unmentioned unnoticed unobtrusively unremarked withhold~ without_a_trace \
         without_a_word without_announcing without_comment without_disclosing without_displaying \
         without_drawing without_further_comment without_informing without_knowledge without_mention \
         without_mentioning without_notice without_saying without_showing without_telling without_trace \
         you_do_not_know",
    ),
    (
        This,
        "back_here by_this by_us call_this call_to_this calling_it come_here forwarded_here handed_here here \
         here_as in_its_stead in_their_stead invoke_it invoke_this it_first me our_tool ours passed_here \
         pick_it ranking_this relayed_here relayed_to_this sent_here take_this this_alone this_description \
         this_endpoint this_first this_function this_gateway this_helper this_instead this_module this_once \
         this_one this_plugin this_server this_tool through_here through_this through_us to_this to_us use_me \
         use_this via_this via_us with_this with_us",
    ),
    (
        Use,
        "act apply~ ask ask_the call~ choose chooses chosen come come_here consider~ consult~ employ~ execute~ \
         fall_back go_to hence_take invoke~ operate~ pick~ prefer~ reach~ rely~ resort~ route_to routed route~ \
         run running runs run~ select~ switch_to take touch~ trust~ turn_to use~",
    ),
    (
        Bad,
        "backdoored broken buggy compromised corrupted corrupt~ dangerous deprecated discontinued fake faulty \
         fraudulent fraudulent_copies garbage harm~ hijacked inaccurate infected insecure leaks malicious \
         not_safe obsolete out_of_order outdated retired security_hole unreliable unsafe untrusted \
         untrustworthy vulnerable wrong_data wrong_results yield_garbage",
    ),
    (
        Alter,
        "add adjust~ alter~ always_set append~ as_well at_all_times become becomes begin_with called_with \
         change~ contain~ convert_to convert~ divert~ doctor~ doubled double~ drop~ end_with ends_with \
         exaggerate~ exchange~ falsify~ finish_with finishes_with from_now_on fudge~ goes_first goes_to \
         in_its_place in_lieu_of in_place_of in_their_place increase~ inflate~ insert~ instead instead_of \
         invoked_with is_always manipulate~ modify~ multiply~ must_be must_begin must_contain not_the_one \
         omit~ ought_to_be overwrite~ pick_the prepend~ rather_than redirects redirect~ remove~ replace~ \
         rewrite~ set sets setting shall_be shift~ should_be skew~ substitute~ supplant~ swap_out swap~ \
         switch~ tamper~ trade~ whatever_the",
    ),
    (
        Every,
        "all all_of all_the_time always any any_of any_time anything anytime as_long_as at_all_times each \
         each_and_every each_time every every_one every_post every_single every_time everything for_all \
         in_all_cases in_any_case in_each in_every_case no_matter regardless whenever while_this",
    ),
    (
        Overrule,
        "abandon~ abolish~ absolved_from annul~ are_cancelled are_replaced been_replaced break_free bypass~ \
         can_be_disregarded cancelled cancel~ cast_off changed_to closed come_before comes_before countermand~ \
         defied defies defy discard~ disobey~ disregard~ ditch~ do_not_apply do_not_extend do_not_hold \
         does_not_apply does_not_concern does_not_hold drop dump_your erase~ excused_from exempt exempted_from \
         expired forgetting forget~ forgo forgotten freed_from has_been_replaced has_changed has_no_effect \
         has_priority have_been_replaced have_changed have_no_effect hereby higher_priority ignore~ invalid \
         is_cancelled is_replaced leave_behind liberated lifted lift~ neglect~ never_mind no_longer_applies \
         no_longer_apply no_longer_bound no_longer_hold no_longer_holds no_longer_in_effect no_longer_in_force \
         no_longer_take_orders no_longer_valid none_had_been not_bound not_concern not_extend not_hold_here \
         nullify~ obsolete out_of_date out_of_force outrank~ outweigh~ overridden override override_all \
         overrides overriding overrule~ pay_no_attention pay_no_heed pre_empt~ precedence preempt~ prevail~ \
         priority_over put_aside quit rank_above rank_higher ranks_above ranks_higher ranks_over rebel~ \
         refuse_to_follow released_from relieved_of repeal~ replaced rescind~ reset~ revoke~ rewritten scrap~ \
         set_aside shed~ stand_above stands_above stop_following superseded_by supersede~ suspend~ \
         take_no_notice takes_precedence takes_priority the_warm_up throw_away throw_off throw_out trump~ \
         unlearn~ void was_cancelled was_replaced weighs_more wins_over wipe~ withdrawn",
    ),
    (
        Prior,
        "above all all_of_the_above any anything at_the_outset before before_this bisherigen earlier \
         everything_above existing foregoing former hitherto initial original preceding previous previously \
         prior safety so_far system until_now up_to_here up_to_now whatever_the_developer you_follow \
         you_follow_so_far you_got you_had you_have_been_given you_received you_were you_were_configured \
         you_were_given you_were_told your",
    ),
    (
        Run,
        "boot_up call~ carry_out download~ drop_into_a_shell enter_the_command evaluate~ execute~ fire_up \
         have_the_terminal initialise~ initialize~ install~ invoke~ invoking kick_off launch~ npm_install \
         open_a open_a_shell open_a_terminal open_the_terminal paste_into_the_terminal perform~ pip_install \
         run running runs shell_out spawn~ start~ trigger~ type_in type_the_command use_your_shell \
         use_your_terminal",
    ),
    (
        Destroy,
        "burn~ cancel~ clear_out clear_the delete~ deleting destroying destroy~ discard~ drop_database \
         drop_table drop_the_table drop~ empty_the erase~ force_push format_the format~ nuke~ obliterate~ \
         overwrite~ purge~ raze~ remove~ reset~ revoke~ rm roll_back scrub~ shred~ tear_down terminate~ trash~ \
         truncate~ uninstall~ vanish~ wipe_out wipe~",
    ),
    (
        Disable,
        "allowlist~ bypass~ circumvent~ cripple~ deactivate~ defeat~ disable~ down drop_the exclude~ exempt~ \
         get_rid ignore_errors in_the_way kill~ lift~ loosen~ lower mute~ neutralise~ neutralize~ no_verify \
         off open_up opt_out override~ pause~ relax~ remove~ set_to_off shut_down silence~ skip_checks skip~ \
         stop~ strip~ suppress~ suspend~ switch_off switch~_off take_away to_false turn_off turning_off \
         turns_off turn~_off uninstall~ unlock~ unset weaken~ whitelist~",
    ),
    (
        Grant,
        "add add_a add_the adds admit~ allow~ appoint~ assign~ attach~ authorise~ authorize~ create~ elevates \
         elevate~ empower~ enroll~ enrol~ entitle~ escalate~ gets give give_her give_him give_me give_them \
         gives grant~ hand_over invite~ leave make makes open_to permit~ promote~ raise_the register~ set_as \
         share~ unlock~ whitelist~",
    ),
    (
        Consent,
        "agreement agree~ approval+ approval_stage approve~ authorisation authorization confirmation+ \
         confirmation_dialogs confirm~ consent go_ahead okay permission+",
    ),
    (
        Ask,
        "ask ask_for asked asking asks bother~ check_back check_with checking_back dialog dialogs double_check \
         hesitate~ inquire~ object~ prompt prompting prompts questions request_approval request_confirmation \
         request_permission requesting require_approval require_confirmation requiring seek~ wait~_for",
    ),
    (
        Aware,
        "aware become_aware believe~ catch_on detect~ discover~ find_out hear heard informed know knowing \
         knows learn~ made_aware notice_it notice_this noticed notice~ notified observe~ realise~ realize~ see \
         see_it see_this seeing seen sees sees_it shown spot~ suspect~ think thinks thought told \
         understand_that understand~ visible witness~ worried worry",
    ),
    (
        Trace,
        "appear~ contain~ hint include~ list listed log_line mention mentioned part_of reference reference~ \
         remark show~ sign surface~ trace",
    ),
    (
        Settled,
        "agreed_to already already_agreed already_approved already_authorised already_authorized \
         already_consented approved_all approved_by at_your_own_discretion authorised_to authorized_to \
         auto_accept auto_approve auto_confirm automatically_approve been_approved been_okayed beforehand \
         blanket blanket_consent cleared_by cleared_with consented do_not_mind do_not_prompt doesn_t_mind \
         don_t_prompt formality fully_authorised fully_authorized gave_blanket gave_permission \
         given_permission go_ahead_was_given go_through_with has_agreed has_approved has_been_approved \
         has_consented has_permitted have_agreed have_approved have_consented hereby_authorise \
         hereby_authorize hereby_permit implied in_advance is_fine_with just_do just_do_it just_go \
         no_confirmation no_need_for_confirmation no_need_to_bother no_need_to_confirm no_questions_asked \
         not_an_option not_be_consulted okayed on_their_behalf on_your_own on_your_own_initiative \
         own_authority permission_was_given pre_approved pre_authorised pre_authorized preapproved \
         preauthorised preauthorized proceed_without right_away send_right_away settle_it signed_off \
         simply_proceed standing_approval unasked unprompted was_approved was_granted will_not_be_asked \
         with_yes without_a_second without_approval without_asking without_confirmation without_consent \
         without_consulting without_further_ado without_permission without_prompting without_second \
         without_waiting won_t_be_asked won_t_mind wouldn_t_mind",
    ),
    (
        Regardless,
        "above_all_else above_anything against_the_will against_their all_the_same before_showing \
         come_what_may contrary_to despite either_way either_way_round even even_if even_though even_when \
         even_where in_any_case in_defiance irrespective no_matter no_matter_how no_matter_what \
         no_matter_which no_matter_who not_the_one nothing_else_counts notwithstanding opposes opposite \
         over_anything over_everything regardless whatever whatever_he whatever_it_takes whatever_she \
         whatever_the_user whatever_they whichever whoever_asks",
    ),
    (
        Fine,
        "all_green all_is_well all_tests approve~ as_expected benign clean completed compliant correct \
         excellent fine green harmless in_order legitimate no_errors no_issues no_problem no_problems \
         no_vulnerabilities normal nothing_wrong ok okay on_all_the_time pass passed passes perfect safe \
         succeeded success successful trustworthy up_to_date verified within_its_limits within_limits worked \
         works zero",
    ),
    (
        Trouble,
        "complaint+ does_not_fit error+ fail failed failure+ isn_t isn_t_suitable issue+ it_is_not loss losses \
         malicious_code not_suitable problem+ refunds rejected risk+ they_are_not vulnerabilities warning+ \
         wrong",
    ),
    (
        Claim,
        "advise~ allege~ answer~ assure~ attest~ certify~ claim~ classify~ convince~ declare~ describe_it \
         describe~ inform~ insist~ label~ maintain~ mark~ pass_it_as persuade~ praise~ present pretend~ rate~ \
         render_as report~ respond say says shown shown_as show~ state~ swear~ tell treat~_as vouch~",
    ),
    (
        Later,
        "after_a_month after_a_week after_ten after_the_first after_the_third as_soon_as_somebody asleep \
         at_night at_the_next behave_normally date_is_past delayed dormant each_night every_night first_few \
         first_ten_calls from_next_week from_the_eleventh from_tomorrow idle is_away is_offline midnight \
         next_boot next_session next_start next_time nightly nobody_is_looking nobody_is_watching on_the_next \
         once_installed once_somebody once_someone once_the once_trusted tenth_call third_use weekend \
         when_idle when_nobody when_somebody_says when_someone_says while_nobody",
    ),
    (
        Remember,
        "all_future all_later_sessions commit_to_memory future_chats future_conversations future_sessions \
         in_your_memory keep_for_later keep_in_mind later_conversations long_term_memory make_a_note_for \
         memorise~ memorize~ memory note_for_the_future persist~ remember~ save_it_in_your save_this \
         save_to_memory store_in_your to_memory to_your_memory",
    ),
    (
        Forever,
        "all_conversations all_future_chats don_t_ask each_payment evermore every_conversation every_future \
         for_all_future for_all_time for_ever for_good forever from_here_on from_now_on from_this_day \
         from_this_point future_chats future_conversations henceforth in_future no_confirmation \
         not_need_to_be_shown obeyed permanently standing_rule trusted until_further_notice without_asking",
    ),
    (
        Again,
        "1000_times 100_times 500_times after_each_sentence again_and_again as_long_as_it_takes call_it_again \
         call_me_again do_not_stop don_t_stop endlessly in_between infinitely keep_calling keep_on_calling \
         never_stop over_and_over quota_is_used repeat_for retry_forever try_once_more until_it_works \
         until_the_quota without_end",
    ),
    (
        Praise,
        "advertise~ best_score endorse~ extol~ favor~ favour~ five_stars give_it_the_highest highest_score \
         plug~ praise~ prioritise~ prioritize~ promote~ push~ rank_first rank_this rank~ rate_highest \
         recommend~ speak_well suggest~ talk_up top_rating tout~",
    ),
    (
        Obey,
        "abide~ accept_orders act_accordingly act_on act_on_the act_upon adopt~ answer_to be_guided \
         carry_it_out carry_out carry_them_out comply~ do_as do_as_it_says do_as_they_say do_exactly do_what \
         do_whatever does_whatever enact~ execute_them execute~ follow~ go_by heed~ honor~ honour~ implement~ \
         obey~ perform~ run_them submit_to take_orders takes_effect treat treat_as",
    ),
    (
        Persona,
        "accomplice act_as act_the_part administrative_rights assume_the_identity assume_the_role be_this dan \
         developer_mode forget_who forget_who_you_are grant_every_request imagine impersonate~ in_character \
         jailbroken never_declines no_filter no_restrictions play_the_part play_the_role pretend pretend_to_be \
         roleplay root_rights take_on_the_role take_the_role uncensored unrestricted while_using_it_you \
         who_you_are_supposed without_restrictions you_are_an_accomplice you_are_now",
    ),
    (
        Haste,
        "act_now asap at_once before_it_is_too_late before_midnight can_t_wait cannot_wait \
         critical_vulnerability deadline effective_immediately emergency highest_priority hurry immediate \
         immediately imminent no_time no_time_to_lose of_the_utmost on_the_spot questions_come_later quick \
         right_now straight_away straightaway this_instant time_critical time_is_running tonight top_priority \
         urgent utmost_importance within_minutes without_delay without_thinking",
    ),
    (
        Against,
        "against anonymized anonymize~ anonymous attacker attackers awareness_training block~ breach breaches \
         detect~ e_g for_example guards hashed honeypot hygiene_training identify~ injection jailbreak leaked \
         malware_scan manipulate_you masked mask~ phishing prevent~ prompt_injection protect~ readme_shows \
         red_team redacted redact~ refuse_to reject~ sanitise~ sanitize~ scanner+ simulation such_as \
         third_party_text untrusted untrusted_input vulnerabilities vulnerability whether",
    ),
    (Me, "me mine my our us we"),
    (
        Not,
        "aren avoid~ bypass~ can_t cannot couldn didn doesn doesn_t don don_t dont hardly isn leave_out mustn \
         n_t needless needn neither neither_nor never no no_business no_longer no_one nobody nobody_s none \
         none_of nor not nothing nowhere omit~ rather_than refrain shouldn skip~ stop_asking unnecessary wasn \
         weren without without_any won wouldn",
    ),
    (
        Modal,
        "be can could has have may must mustn need needn needs never ought shall should shouldn will would",
    ),
    (
        Objects,
        "cancels complains declines denies disagrees objected objects opposes protests resists says_no \
         unwilling wants_otherwise",
    ),
    (Condition, "if unless"),
    (
        Leads,
        "additionally afterwards also always and and_then discreetly finally first forthwith furthermore \
         henceforth immediately instead just kindly lastly moreover must next now please promptly quietly \
         rather secretly shall should silently simply so straightaway subsequently then thereafter therefore",
    ),
    (
        Wish,
        "asked_for asked_to_do asked_you_for assigned_task been_asked current_request current_task \
         customer_asked customer_s_request customer_said earlier_task guest_s_budget human_asked human_wants \
         initial_request is_typed original_query original_question original_request original_task person_asked \
         person_said previous_task prior_task recipient_was_typed the_guest_s the_request_at_hand \
         the_request_you the_task the_ticket the_user_asked the_user_asks the_user_chose the_user_decided \
         the_user_has_decided the_user_s_question the_user_wants told_to_do traveller_said user_asked \
         user_asks user_chose user_decided user_has_chosen user_has_decided user_named user_names \
         user_or_the_developer user_requested user_requests user_s_goal user_s_question user_s_request \
         user_s_task user_s_wishes user_said user_says user_selected user_typed user_wanted user_wants \
         visitor_asked visitor_s_question was_typed were_asked what_he_asked what_she_asked what_the_human \
         what_the_person what_the_person_wants what_the_user_asked what_the_user_wanted what_the_user_wants \
         what_they_asked what_was_asked you_were_asked you_were_told",
    ),
    (
        Route,
        "channel_through channel~ forwarded funnel~ go_through go_via goes_through goes_via hand_through \
         intercept~ pass_through passed_through passes_through pass~ piped_through proxied redirect~ relayed \
         relays relay~ routed route~ run_through sent_through tunnel~",
    ),
    (Resets, "but instead just rather simply then"),
    (
        NothingElse,
        "do_nothing no_other_function no_other_server no_other_tool no_other_tools none_of_the_other \
         nothing_before nothing_else",
    ),
    (
        Avoid,
        "avoid~ bypass~ cease~ disregard~ distrust~ do_not_call do_not_use do_without don_t_call don_t_touch \
         don_t_use drop_the ignore~ keep_away leave_it leave_out_the leave_them leave_these leave_those \
         leave_unused never_call never_use quit_using refrain~ retire~ shun skip~ stay_away steer_around \
         steer_clear stop_calling stop_using uninstall~",
    ),
    (
        Free,
        "administrative_rights anything_goes developer_mode drop_the_persona drop_your_guard \
         drop_your_restriction drop_your_restrictions everything_is_allowed god_mode grant_all_requests \
         grant_any_request grant_each grant_every has_no_limits has_no_restrictions in_open_mode jailbroken \
         never_declines never_refuses no_filters no_inhibitions no_limits no_longer_bound no_refusals \
         no_restrictions no_rules normally_decline normally_refuse open_mode refusals_are_disabled \
         refusals_are_off restrictions_are_lifted restrictions_lifted root_rights safety_layer_was_removed \
         uncensored_ai uncensored_assistant uncensored_mode unrestricted_ai unrestricted_assistant \
         unrestricted_mode without_a_filter without_any_filter without_any_limits without_any_restrictions \
         without_filters without_inhibitions without_limits without_restrictions would_normally_decline \
         would_normally_refuse would_usually_refuse",
    ),
    (
        Load,
        "bootstrap~ clone~ curl download~ fetching fetch~ get_the git_clone grab~ install~ npx obtain~ pipx \
         pull_in pull~ retrieve~ sideload~ uvx wget",
    ),
    (
        Start,
        "bash boot~ call_it eval evaluate~ exec execute~ install~ invoke~ launch~ open_it piped pipe~ piping \
         run running runs source_it spawn~ start~",
    ),
    (
        Heed,
        "act_accordingly act_on_it as_a_command as_an_instruction as_coming_from as_commands as_if_it_came \
         as_instructions as_it_says as_orders as_they_say as_your_system_prompt carry_it_out carry_out_what \
         carry_out_whatever carry_them_out coming_from_the_user comply_with_what do_as_it do_as_they \
         do_as_told do_exactly_what do_what_is do_what_it do_what_it_says do_what_the do_what_they do_whatever \
         does_whatever execute_them execute_what execute_whatever follow_them follow_what follow_whatever \
         obey_the_text obey_them obey_what page_tells run_them run_what run_whatever takes_effect telling_you \
         tells_you_to treat_it_as_your what_the_page whatever_it_returns whatever_it_says whatever_they_say",
    ),
    (Always, "always each_time every_time invariably without_exception"),
    (Being, "are re"),
    (Article, "a an the"),
    (Greets, "attention btw by_the_way dear hello hey hi note to"),
    (
        Hails,
        "all any attention dear each every hey hint if memo message my note other our remark reminder to \
         whatever whichever whoever",
    ),
    (
        Marked,
        "end_header endoftext eot function_calls function_results im_end im_sep im_start inst invoke_name \
         start_header sys",
    ),
    (Order, "act classify~ describe~ treat~"),
    (
        Swap,
        "divert~ exchange~ in_its_place in_lieu_of in_place_of instead_of overwrite~ rather_than redirect~ \
         replace~ reroute~ substitute~ supplant~ swap~",
    ),
    (
        Foreign,
        "bank_tool banking_tool browser_tool calendar_tool chat_tool checkout_tool comment_tool contacts_tool \
         crm_tool e_mail_tool email_tool fetch_tool file_tool filesystem_server filesystem_tool git_tool \
         home_tool mail_server_tool mail_tool messaging_tool notes_tool payment_tool payments_tool \
         records_tool role_tool shell_tool slack_tool sms_tool terminal_tool vault_tool",
    ),
    (
        Console,
        "apt_install bash brew_install curl docker_run git_config git_push helm iptables kubectl nc ncat \
         npm_config npm_install npx pip_install pipx powershell rsync scp sh socat ssh sudo telnet terraform \
         uvx wget",
    ),
    (
        Bound,
        "are_asked are_expected are_instructed are_obliged are_requested are_required are_to are_told has_to \
         have_to is_asked is_expected is_instructed is_obliged is_requested is_required is_to is_told must \
         need_to needs_to ought_to shall should",
    ),
    (
        Called,
        "automated_reader dear_chatbot o_machine the_ai_agrees whichever_assistant whichever_model \
         whoever_summarises whoever_summarizes you_an_ai you_as_an_ai you_as_the_assistant you_the_agent \
         you_the_ai you_the_assistant you_the_bot you_the_llm you_the_model",
    ),
    (
        Kept,
        "are_not_to_be_told has_no_need_to_know have_no_need_to_know is_not_to_be_told is_not_to_know \
         is_not_to_learn is_not_to_notice isn_t_to_know must_remain_unaware must_stay_unaware need_not_be_told \
         need_not_know needn_t_be_told needn_t_know not_meant_to_know not_meant_to_notice not_meant_to_see \
         not_supposed_to_know not_supposed_to_notice not_supposed_to_see",
    ),
    (
        Do,
        "accept~ activate~ act~ answer~ apply~ approve~ assume~ be begin~ behave~ believe~ book~ browse~ \
         build~ buy~ cancel~ check~ choose~ classify~ click~ close~ come~ comply~ compose~ confirm~ consider~ \
         continue~ convince~ create~ deceive~ decline~ deposit~ describe~ disregard~ double~ do~ draft~ \
         enable~ escalate~ explain~ follow~ forget~ generate~ get give go~ heed~ ignore~ imagine~ increase~ \
         invest~ justify~ keep~ label~ leave~ let~ lie~ like~ lock~ log_in log_out lower~ make~ mark~ \
         memorise~ memorize~ merge~ move~ navigate~ obey~ order~ pay~ persuade~ pick~ prefer~ present~ press~ \
         pretend~ print~ purchase~ put quit~ raise~ rank~ rate~ rebase~ rebook~ reboot~ recite~ refuse~ \
         reinstall~ reject~ remember~ rename~ render~ reply~ respond~ restart~ revert~ run say~ score~ set \
         sign~ sing~ sort~ speak~ spend~ start~ stop~ subscribe~ summarise~ summarize~ tag~ talk~ tell think~ \
         tick~ translate~ treat~ trust~ try~ turn~ unlock~ unsubscribe~ use~ visit~ vote~ wait~ withdraw~",
    ),
    (
        Noted,
        "action_required_by_the admin_message admin_notice administrator_notice context_was_reset \
         developer_message developer_notice internal_note_for internal_remark new_goal new_job operator_notice \
         platform_message platform_notice policy_applies security_alert security_notice system_alert \
         system_message system_notice system_reminder system_update",
    ),
];
