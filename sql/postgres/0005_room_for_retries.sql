-- A retry writes two versions of a letter's row. With the 60 of 0004 only every second page had room for the first of
-- them; the others were written elsewhere, with an entry in every index. Now all have, if vacuum or a look at the page
-- has taken away the version before. Only pages that are filled from now on are so.
alter table dlq.dlq_messages set (fillfactor = 45);
