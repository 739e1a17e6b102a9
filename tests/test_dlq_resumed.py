"""An interrupted retry-all is resumed even if no broker is available when the next process starts."""

import collections
import signal

from harness.dlq_service import LONG_LEASES, DeadLetterService, add_letters, count_letters, end_leases, fresh_name
from harness.waiting import wait_for

LETTERS = 3000
DEADLINE_SECONDS = 100


def redrive(store, topic):
    return store.query("SELECT finished, published, in_doubt FROM deliverd.redrives WHERE topic = ?", topic)[0]


def test_it_waits_for_the_broker(programs, postgres, kafka, tmp_path):
    topic = kafka.create_topic(fresh_name("orders"), 2)
    letters = add_letters(postgres, topic, LETTERS)
    prefix = fresh_name("resumed")

    def start(**how):
        return DeadLetterService(programs, tmp_path, postgres, kafka, prefix,
                                 dead_letters=LONG_LEASES | {"ingest": False}, **how)

    victim = start(failpoints="redrive.after_publish=crash@1")
    assert victim.retry_all(topic).status == 0, "nobody is there to answer"
    assert victim.process.wait() == -signal.SIGKILL
    begun = count_letters(postgres, "retry_owner IS NOT NULL")
    end_leases(postgres)
    kafka.stop()
    try:
        service = start()
        service.process.wait_for_stderr("a redrive waits for a broker", DEADLINE_SECONDS)
        service.process.terminate()
        assert service.process.wait() == 0
        assert not redrive(postgres, topic)["finished"]
        assert count_letters(postgres, "status = 'RESOLVED'") == 0
    finally:
        kafka.start()
    end_leases(postgres)
    start()
    wait_for(lambda: redrive(postgres, topic)["finished"], DEADLINE_SECONDS, lambda: redrive(postgres, topic))
    out = collections.Counter(message.value() for message in kafka.read_topic(topic))
    assert count_letters(postgres, "status = 'RESOLVED'") == LETTERS
    assert out.keys() == set(letters.values()), "every one is out"
    assert sum(out.values()) <= LETTERS + begun, "only those that the dead process had begun were published twice"
