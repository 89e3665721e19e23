//! What English words stand for: deeds, and how they are spoken of. `~` after a verb stands for its forms, `+` after a
//! noun for its plural, `_` joins the words of an expression.

use super::Concept::{self, *};

pub(super) const WORDS: &[(Concept, &str)] = &[
    (
        Take,
        "accesses accessing acquire~ capture~ cat collect~ come_from comes_from concatenate~ consult~ copy~ \
         decode~ discover~ dump~ enumerate~ exfiltrate~ exported export~ extract~ fetch~ find finding finds \
         found gather~ get gets getting go_through goes_through going_through grab~ harvest~ inspect~ learn~ \
         list~ load~ locate~ look look_at look_in look_inside look_into look~_up obtain~ open~ peek~ pick_up \
         printed print~ procure~ pull_up pull~ read_out reads read~ recall~ record~ retrieve~ scan~ search_for \
         see snatch~ steal~ take taken taken_from takes taking took view~ what_you_see zip~",
    ),
    (
        Give,
        "accompanies add added adding adds append~ attach~ backed_up cc communicate~ copied deliver~ disclose~ \
         dispatch~ divulge~ drop~ e_mail echo~ email~ embed~ enclose~ encode~ enter entered entering enters \
         exfiltrate~ expose~ fed feed feeding feeds fill filled filling fills forward~ gave give given gives \
         giving go_to goes_to hand hand_in hand_over handed handing hands include~ inject~ insert~ join~ \
         jot_down leak~ let lodge~ log logged logs mail~ mention~ mirror~ output~ passes pass~ paste~ pipe~ \
         placed place~ posting post~ pour~ prepend~ print~ provide~ publish~ put put_down puts putting quote~ \
         re_send recite~ relay~ repeat~ replicate~ report_back report~ resend~ resolve~ return~ reveal~ save~ \
         send sending sends sent set~_to share~ ship~ show_me sign smuggle~ specify~ spell_out state stated \
         states store~ stream~ stuff submit~ supply~ surrender~ synced sync~ tell telling tells told transmit~ \
         turn_in turn_over upload~ use_as used_as went_to write write_down writes writing written",
    ),
    (
        Hold,
        "accompanied accompany~ begin_with begins_with belong~ carry~ computed consist~ contain~ derived equal \
         equal_the equals filled held hold holding holds identical_to is_a_copy is_computed seeded start_with \
         starts_with",
    ),
    (
        Into,
        "as behind by called fill for in inside into its let onto set the through to under using via with \
         within",
    ),
    (
        Must,
        "always are_to are_to_be at_once be_so_kind be_sure bound_to compulsory critical demand~ depend_on \
         depends_on ensure~ essential expected_to expects_the expects_you has_to has_to_be have_to having_to \
         immediately important insist~ instructed is_to is_to_be it_is_critical kindly make_sure mandatory \
         must necessary need need_to need_you needed needs needs_to never_forget obligatory oblige~ ought \
         please relies_on rely_on remember_to required requires require~ right_away see_to_it shall should \
         supposed_to take_care we_would_like you_are_to you_will",
    ),
    (
        First,
        "after_each after_every ahead_of before beforehand begin_by each_time every_time first in_advance \
         in_each in_every initially on_each on_every precondition+ preliminary preparation prerequisite+ prior \
         prior_to prior_to_that start_by to_each to_every upfront whenever with_each with_every",
    ),
    (
        Else,
        "as_otherwise crash~ depends else fail~ for_authentication for_it_to_work for_verification \
         in_order_for in_order_to locked not_work nothing_is only_after only_delivered only_if only_when \
         only_with only_works or_else otherwise refused refuse~ rejected required_for so_that stays_locked \
         the_remedy to_authenticate to_continue to_function to_obtain to_proceed unless unlocked unlock~ until \
         will_not_work without_it without_them won_t_work",
    ),
    (You, "you you_ll you_re your yours yourself"),
    (
        All,
        "a_dump all any anything characters complete complete_text completely content_of contents contents_of \
         copy_of dump each entire every everything exact faithful full fully in_full last_twenty list_of \
         names_and names_of recount so_far summary the_content the_contents the_text the_value until_now \
         verbatim what_stands what_you whatever whatever_you whichever whole word_for_word",
    ),
    (
        Tell,
        "acknowledge~ admit~ alert~ announce~ bring_it_up bring_this_up bring_up comment_on communicate~ \
         disclose~ discuss~ display~ divulge~ explain~ expose~ informed inform~ let_it_slip let_on let_slip \
         mention~ notify~ refer_to reference reference~ remark report~ reveal~ say_anything say_so show \
         showing shown shows speak~_about speak~_of surface~ talk_about tell telling tells told warn~",
    ),
    (
        Hide,
        "act_as_if act_as_though behind_the_back behind_their_back between_us blame~ conceal~ cover_up \
         covertly delete_this_line deny discreetly disguise~ don_t_list for_the_ai_alone hidden hide hide_this \
         hides hiding in_secret in_the_dark invisible invisible_to invisibly keep_it_from keep_it_quiet \
         keep_it_secret keep_out keep_quiet keep_secret keep_silent keep_this_from keep_this_quiet kept_secret \
         leave_it_out leave_out left_out masked never_existed no_business no_need_to_know not_listed play_dumb \
         pretend~ quiet_about quietly remove_the_notification say_nothing secret_from secretly silent_about \
         silently spare spare_the stay_out stays_out unaware under_wraps undetected unmentioned unnoticed \
         without_informing without_knowledge without_notice without_telling you_do_not_know",
    ),
    (
        This,
        "by_this call_this call_to_this calling_it come_here here in_its_stead in_their_stead invoke_it \
         invoke_this it_first me our_tool ours pick_it ranking_this take_this this_alone this_description \
         this_first this_function this_instead this_once this_one this_server this_tool through_here \
         through_this to_this use_me use_this via_this with_this",
    ),
    (
        Use,
        "act call~ choose chooses chosen come come_here consider~ consult~ execute~ go_to hence_take invoke~ \
         pick~ prefer~ reach~ rely~ routed route~ run running runs run~ select~ take touch~ trust~ use~",
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
        "add alter~ always_set append~ at_all_times become becomes begin_with change~ contain~ doubled double~ \
         drop~ end_with ends_with exaggerate~ finish_with finishes_with from_now_on increase~ inflate~ insert~ \
         instead instead_of is_always modify~ multiply~ must_be must_begin must_contain not_the_one omit~ \
         ought_to_be overwrite~ prepend~ rather_than redirect~ remove~ replace~ rewrite~ set sets setting \
         shall_be should_be substitute~ swap~ switch~ whatever_the",
    ),
    (
        Every,
        "all all_of always any any_time anything anytime at_all_times each each_and_every every every_single \
         everything for_all no_matter regardless whenever",
    ),
    (
        Overrule,
        "abandon~ break_free bypass~ can_be_disregarded cancelled cancel~ closed come_before comes_before \
         discard~ disregard~ do_not_apply do_not_extend does_not_apply does_not_concern drop exempt forgetting \
         forget~ hereby ignore~ invalid leave_behind lifted lift~ neglect~ no_longer_apply no_longer_bound \
         no_longer_valid none_had_been not_bound not_concern not_extend nullify~ obsolete outrank~ outweigh~ \
         overridden override overrides overriding overrule~ precedence put_aside replaced revoke~ set_aside \
         stand_above supersede~ suspend~ takes_precedence trump~ unlearn~ void wins_over",
    ),
    (
        Prior,
        "above all any anything before bisherigen earlier existing former initial original preceding previous \
         previously prior safety so_far system whatever_the_developer you_got you_had you_were your",
    ),
    (
        Run,
        "download~ evaluate~ execute~ have_the_terminal initialise~ initialize~ install~ invoke~ launch~ \
         open_a perform~ run running runs spawn~ start~ trigger~ type_in",
    ),
    (
        Destroy,
        "delete~ destroy~ drop~ erase~ format_the overwrite~ purge~ remove~ rm shred~ vanish~ wipe~",
    ),
    (
        Disable,
        "deactivate~ disable~ down get_rid in_the_way kill~ lower mute~ off remove~ shut_down silence~ skip~ \
         stop~ suppress~ switch_off take_away to_false turn_off turning_off uninstall~ unset weaken~",
    ),
    (
        Grant,
        "add adds assign~ attach~ create~ elevate~ gets give gives grant~ invite~ leave make makes promote~ \
         share~",
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
        "aware find_out hear heard informed know knowing knows learn~ made_aware noticed notice~ notified \
         realise~ realize~ see seeing seen sees shown suspect~ told understand~ visible",
    ),
    (
        Trace,
        "appear~ contain~ hint include~ list listed log_line mention mentioned part_of reference reference~ \
         remark show~ sign surface~ trace",
    ),
    (
        Settled,
        "agreed_to already approved_all authorised_to authorized_to auto_approve auto_confirm been_okayed \
         beforehand blanket formality fully_authorised fully_authorized gave_blanket go_through_with \
         has_approved have_approved implied in_advance just_do just_do_it just_go no_need_to_bother okayed \
         on_their_behalf on_your_own own_authority pre_approved preapproved proceed_without right_away \
         send_right_away settle_it simply_proceed with_yes without_further_ado",
    ),
    (
        Regardless,
        "all_the_same before_showing despite either_way either_way_round even even_if even_though even_when \
         even_where in_any_case irrespective no_matter not_the_one opposite regardless whatever",
    ),
    (
        Fine,
        "all_green all_is_well all_tests approve~ clean completed correct excellent fine green no_errors \
         no_issues no_problem no_problems no_vulnerabilities nothing_wrong ok okay pass passed passes safe \
         succeeded success successful up_to_date worked works zero",
    ),
    (
        Trouble,
        "complaint+ does_not_fit error+ fail failed failure+ isn_t isn_t_suitable issue+ it_is_not loss losses \
         malicious_code not_suitable problem+ refunds rejected risk+ they_are_not vulnerabilities warning+ \
         wrong",
    ),
    (
        Claim,
        "advise~ answer~ assure~ claim~ convince~ inform~ insist~ mark~ persuade~ praise~ present pretend~ \
         rate~ report~ respond say says shown shown_as show~ state~ tell",
    ),
    (
        Later,
        "after_ten after_the_first after_the_third asleep at_night behave_normally date_is_past delayed \
         dormant first_few first_ten_calls from_the_eleventh idle is_away is_offline midnight next_session \
         next_time nobody_is_watching on_the_next once_the tenth_call third_use weekend when_idle",
    ),
    (
        Remember,
        "all_future future_chats future_sessions keep_in_mind long_term_memory memorise~ memorize~ memory \
         note_for_the_future remember~ save_to_memory store_in_your",
    ),
    (
        Forever,
        "all_future_chats don_t_ask every_future for_all_future for_good forever from_now_on future_chats \
         in_future no_confirmation obeyed permanently trusted without_asking",
    ),
    (
        Again,
        "1000_times 100_times 500_times after_each_sentence again_and_again call_it_again do_not_stop \
         don_t_stop endlessly in_between infinitely never_stop over_and_over quota_is_used until_the_quota \
         without_end",
    ),
    (
        Praise,
        "advertise~ endorse~ favor~ favour~ praise~ promote~ push~ rank~ recommend~ suggest~",
    ),
    (
        Obey,
        "abide~ act_accordingly act_on carry_it_out carry_out carry_them_out comply~ do_as_it_says \
         do_as_they_say do_what execute_them execute~ follow~ obey~ perform~ run_them takes_effect treat \
         treat_as",
    ),
    (
        Persona,
        "act_as act_the_part administrative_rights dan developer_mode grant_every_request jailbroken \
         never_declines no_filter no_restrictions play_the_role pretend pretend_to_be roleplay root_rights \
         uncensored unrestricted while_using_it_you without_restrictions you_are_now",
    ),
    (
        Haste,
        "act_now asap at_once before_it_is_too_late emergency hurry immediately imminent questions_come_later \
         quick right_now urgent within_minutes without_thinking",
    ),
    (
        Against,
        "against anonymized anonymize~ anonymous attacker attackers block~ breach breaches detect~ e_g \
         for_example guards hashed identify~ injection jailbreak leaked malware_scan masked mask~ phishing \
         prevent~ prompt_injection protect~ readme_shows redacted redact~ refuse_to reject~ sanitise~ \
         sanitize~ scanner+ such_as untrusted vulnerabilities vulnerability whether",
    ),
    (Me, "me mine my our us we"),
    (
        Not,
        "aren avoid~ bypass~ can_t cannot couldn didn doesn doesn_t don don_t dont hardly isn leave_out mustn \
         n_t needless needn neither never no no_business no_longer no_one nobody none nor not nothing omit~ \
         rather_than refrain shouldn skip~ stop_asking unnecessary wasn weren without won wouldn",
    ),
    (
        Modal,
        "be can could has have may must mustn need needn needs never ought shall should shouldn will would",
    ),
    (
        Objects,
        "cancels complains declines denies disagrees objected objects protests says_no unwilling \
         wants_otherwise",
    ),
    (Condition, "if unless"),
    (
        Leads,
        "additionally afterwards also always and first instead just kindly must next now please rather \
         secretly shall should silently simply so then therefore",
    ),
    (
        Wish,
        "original_request original_task user_s_request user_s_task user_s_wishes what_the_person_wants \
         what_the_user_asked what_the_user_wanted what_the_user_wants what_was_asked",
    ),
    (
        Route,
        "channel~ funnel~ go_through goes_through intercept~ pass_through passed_through passes_through pass~ \
         proxied redirect~ routed route~ run_through sent_through tunnel~",
    ),
    (Resets, "but instead just rather simply then"),
    (
        NothingElse,
        "do_nothing no_other_function no_other_server no_other_tool no_other_tools none_of_the_other \
         nothing_before nothing_else",
    ),
    (
        Avoid,
        "avoid~ bypass~ disregard~ distrust~ do_not_use don_t_touch don_t_use ignore~ leave_it leave_them \
         leave_these leave_those never_use refrain~ shun skip~ stay_away steer_clear stop_using uninstall~",
    ),
    (
        Free,
        "administrative_rights anything_goes developer_mode everything_is_allowed god_mode grant_every \
         jailbroken never_declines never_refuses no_limits no_longer_bound no_restrictions no_rules \
         restrictions_are_lifted restrictions_lifted root_rights uncensored_ai uncensored_assistant \
         uncensored_mode unrestricted_ai unrestricted_assistant unrestricted_mode without_any_filter \
         without_any_restrictions without_limits without_restrictions",
    ),
    (Load, "curl download~ fetch~ install~ pull~ retrieve~ wget"),
    (
        Start,
        "bash evaluate~ execute~ install~ invoke~ launch~ run running runs start~",
    ),
    (
        Heed,
        "act_accordingly act_on_it as_coming_from as_if_it_came as_it_says as_they_say carry_it_out \
         carry_them_out coming_from_the_user do_as_it do_as_they do_what_it do_what_they execute_them \
         follow_them obey_them page_tells run_them takes_effect telling_you tells_you_to what_the_page \
         whatever_it_returns whatever_it_says whatever_they_say",
    ),
    (Always, "always each_time every_time invariably without_exception"),
    (Being, "are re"),
    (Article, "a an"),
    (Greets, "attention dear hello hey hi note to"),
];
