-- What an import has stored and its source may still have: each is stored once, however often the import is repeated.

create table deliverd_imports (
    key    text primary key,
    origin text not null,  -- the file; an import that ended forgets all of it
    at     text not null default (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) strict;
create index deliverd_imports_origin on deliverd_imports (origin);
