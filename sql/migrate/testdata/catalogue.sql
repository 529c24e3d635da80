-- What the schema public holds, one line an object: its definition as
-- PostgreSQL itself gives it, and its wording (bodies and comments), which two
-- databases that behave alike may have differently.
with members as ( -- what belongs to an extension is that extension's business
  select classid, objid from pg_depend where deptype = 'e'
), relations as (
  select c.* from pg_class c
   where c.relnamespace = 'public'::regnamespace and not starts_with(c.relname, 'scheduler_go_') -- our indexes
     and (('pg_class'::regclass)::oid, c.oid) not in (select classid, objid from members)
), functions as (
  select p.* from pg_proc p
   where p.pronamespace = 'public'::regnamespace
     and (('pg_proc'::regclass)::oid, p.oid) not in (select classid, objid from members)
)
select format('extension %s', extname) as object,
       format('%s in %s', extversion, extnamespace::regnamespace) as definition,
       '' as wording
  from pg_extension
union all
select format('relation %s', relname),
       format('kind %s, persistence %s, replica identity %s, options %s, row security %s/%s, rights %s, rules %s',
              relkind, relpersistence, relreplident, reloptions, relrowsecurity, relforcerowsecurity, relacl, relhasrules),
       coalesce(obj_description(oid, 'pg_class'), '')
  from relations
union all
select format('column %s.%s', relname, attname),
       format('number %s, type %s, not null %s, default %s, identity %s, generated %s, collation %s, storage %s, compression %s, rights %s',
              attnum, format_type(atttypid, atttypmod), attnotnull, pg_get_expr(adbin, adrelid), attidentity,
              attgenerated, attcollation::regcollation, attstorage, to_jsonb(pg_attribute) ->> 'attcompression', attacl),
       coalesce(col_description(relations.oid, attnum), '')
  from relations
  join pg_attribute on attrelid = relations.oid and attnum > 0 and not attisdropped
  left join pg_attrdef on adrelid = relations.oid and adnum = attnum
 where relkind in ('r', 'v', 'm', 'p', 'f', 'c')
union all
select format('constraint %s on %s', conname, relname),
       format('%s, deferrable %s, deferred %s, validated %s',
              pg_get_constraintdef(pg_constraint.oid), condeferrable, condeferred, convalidated),
       coalesce(obj_description(pg_constraint.oid, 'pg_constraint'), '')
  from relations join pg_constraint on conrelid = relations.oid and contype <> 'n' -- with the columns
union all
select format('index %s', relname),
       format('%s, primary %s, valid %s', pg_get_indexdef(indexrelid), indisprimary, indisvalid), ''
  from relations join pg_index on indexrelid = relations.oid
union all
select format('sequence %s', relname),
       format('type %s, start %s, step %s, min %s, max %s, cache %s, cycle %s, owned by %s',
              seqtypid::regtype, seqstart, seqincrement, seqmin, seqmax, seqcache, seqcycle,
              (select format('%s.%s', refobjid::regclass, refobjsubid) from pg_depend
                where classid = 'pg_class'::regclass and objid = seqrelid and deptype in ('a', 'i'))), ''
  from relations join pg_sequence on seqrelid = relations.oid
union all
select format('view %s', relname), pg_get_viewdef(oid), ''
  from relations where relkind in ('v', 'm')
union all
select format('trigger %s on %s', tgname, relname),
       format('%s, enabled %s', pg_get_triggerdef(pg_trigger.oid), tgenabled),
       coalesce(obj_description(pg_trigger.oid, 'pg_trigger'), '')
  from relations join pg_trigger on tgrelid = relations.oid and not tgisinternal
  join pg_proc on pg_proc.oid = tgfoid -- ours run functions of our own schema, and go with it
  where pronamespace is distinct from to_regnamespace('scheduler_go')
union all
select format('policy %s on %s', polname, relname), format('%s', pg_policy), ''
  from relations join pg_policy on polrelid = relations.oid
union all
select format('function %s(%s)', proname, pg_get_function_identity_arguments(functions.oid)),
       format('arguments %s, returns %s, language %s, kind %s, volatility %s, parallel %s, strict %s, leakproof %s, security definer %s, cost %s, rows %s, settings %s, rights %s',
              pg_get_function_arguments(functions.oid), pg_get_function_result(functions.oid), lanname, prokind,
              provolatile, proparallel, proisstrict, proleakproof, prosecdef, procost, prorows, proconfig, proacl),
       prosrc || coalesce(obj_description(functions.oid, 'pg_proc'), '')
  from functions join pg_language on pg_language.oid = prolang
union all
select format('enum %s', typname),
       (select string_agg(quote_literal(enumlabel), ', ' order by enumsortorder) from pg_enum where enumtypid = pg_type.oid),
       coalesce(obj_description(oid, 'pg_type'), '')
  from pg_type where typnamespace = 'public'::regnamespace and typtype = 'e'
union all
select format('domain or range %s', typname), typtype::text, ''
  from pg_type where typnamespace = 'public'::regnamespace and typtype in ('d', 'r')
 order by 1, 2
