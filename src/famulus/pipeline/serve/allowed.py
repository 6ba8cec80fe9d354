"""What a query of somebody in the network may be made of. What is not named here is refused, known or not.

Names are those of Spark's own classes and functions. None of these reads a file, starts a program, calls Java or
changes anything, as far as the tables that a query names are ours.
"""

from __future__ import annotations

from typing import Final


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Parts of the plan, before it is analysed.
PLANS: Final = _words(
    """
    Aggregate Distinct Except Filter Generate GlobalLimit Intersect Join LateralJoin LocalLimit LocalRelation
    Offset OneRowRelation PipeOperator Pivot Project Sample Sort SubqueryAlias Union UnresolvedHaving
    UnresolvedInlineTable UnresolvedRelation UnresolvedSubqueryColumnAliases UnresolvedWith Unpivot
    WithWindowDefinition
    """
)

#: Where the rows of an analysed plan come from.
LEAVES: Final = _words(
    """
    CTERelationRef LocalRelation LogicalRDD LogicalRelation OneRowRelation
    """
)

EXPRESSIONS: Final = _words(
    """
    Add Alias And AttributeReference BitwiseAnd BitwiseNot BitwiseOr BitwiseXor CaseWhen Cast Concat
    CreateNamedStruct Cube CurrentDate CurrentRow$ CurrentTimestamp Divide EqualNullSafe EqualTo Exists
    GreaterThan GreaterThanOrEqual GroupingSets In InSubquery IntegralDivide IsNotNull IsNull LambdaFunction
    LateralSubquery LessThan LessThanOrEqual Like LikeAll LikeAny ListQuery Literal Multiply MultiAlias Not
    NotLikeAll NotLikeAny Or PipeExpression Remainder RLike Rollup ScalarSubquery SortOrder SpecifiedWindowFrame
    Subtract UnaryMinus UnaryPositive UnboundedFollowing$ UnboundedPreceding$ UnresolvedAlias
    UnresolvedAttribute UnresolvedExtractValue UnresolvedFunction UnresolvedGenerator
    UnresolvedNamedLambdaVariable UnresolvedStar UnresolvedStarExceptOrReplace UnresolvedWindowExpression
    UnspecifiedFrame$ WindowExpression WindowSpecDefinition
    """
)

#: Without those that read files (from_protobuf, input_file_name), call Java (reflect), tell who runs this
#: (current_user), parse XML, or make a large value of a small one (repeat, lpad, sequence, format_string).
FUNCTIONS: Final = _words(
    """
    abs acos add_months aggregate any any_value approx_count_distinct approx_percentile array array_agg
    array_append array_compact array_contains array_distinct array_except array_intersect array_join array_max
    array_min array_position array_prepend array_remove array_size array_sort array_union arrays_overlap
    arrays_zip ascii asin atan atan2 avg base64 between bigint bit_and bit_count bit_length bit_or bit_xor
    bool_and bool_or boolean bround btrim cardinality cbrt ceil ceiling char char_length character_length chr
    coalesce collect_list collect_set concat concat_ws contains conv convert_timezone corr cos cosh count
    count_if covar_pop covar_samp crc32 cume_dist curdate current_date current_timestamp current_timezone date
    date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff datepart
    day dayname dayofmonth dayofweek dayofyear decimal degrees dense_rank double e element_at elt endswith
    equal_null every exists exp explode explode_outer expm1 extract filter find_in_set first first_value flatten
    float floor forall format_number from_json from_unixtime from_utc_timestamp get get_json_object greatest
    grouping grouping_id hash hex histogram_numeric hour if ifnull ilike in initcap inline inline_outer instr
    int isnan isnotnull isnull json_array_length json_object_keys json_tuple kurtosis lag last last_day
    last_value lcase lead least left len length levenshtein like listagg ln locate log log10 log1p log2 lower
    ltrim make_date make_timestamp map map_concat map_contains_key map_entries map_filter map_from_arrays
    map_from_entries map_keys map_values map_zip_with max max_by md5 mean median min min_by minute mod mode
    month monthname months_between named_struct nanvl negative next_day not now nth_value ntile nullif
    nullifzero nvl nvl2 octet_length percent_rank percentile percentile_approx percentile_cont percentile_disc
    pi pmod posexplode posexplode_outer position positive pow power quarter radians rank reduce regexp
    regexp_count regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
    regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy replace reverse
    right rint rlike round row_number rtrim second sha1 sha2 shiftleft shiftright sign signum sin size skewness
    slice smallint some sort_array split split_part sqrt stack startswith std stddev stddev_pop stddev_samp
    str_to_map string string_agg struct substr substring substring_index sum tan tanh timestamp timestamp_micros
    timestamp_millis timestamp_seconds tinyint to_char to_date to_json to_number to_timestamp to_unix_timestamp
    to_utc_timestamp transform transform_keys transform_values translate trim trunc try_add try_avg try_divide
    try_element_at try_mod try_multiply try_subtract try_sum try_to_date try_to_number try_to_timestamp typeof
    ucase unbase64 unhex unix_date unix_micros unix_millis unix_seconds unix_timestamp upper var_pop var_samp
    variance weekday weekofyear when width_bucket window xxhash64 year zeroifnull zip_with
    """
)
