-- What an import has stored and its source may still have: each is stored once, however often the import is repeated.

create table deliverd.imports (
    key    uuid primary key,
    origin text not null,  -- the file; an import that ended forgets all of it
    at     timestamptz not null default now()
);
create index imports_origin on deliverd.imports (origin);
