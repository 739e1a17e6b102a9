#include "daemon/spool_sender.h"

#include <string>
#include <utility>

namespace deliverd::daemon {

SpoolSender http_sender(std::shared_ptr<sink::HttpPoster> poster) {
    return [poster = std::move(poster)](const SpoolPost& post) {
        const sink::PostAnswer said =
            poster->post(std::string(post.endpoint), std::string(post.body), std::string(post.job_id));
        SpoolAnswer answer;
        answer.delivered = said.is_success();
        answer.cut_short = said.code == "STOPPED";
        if (!answer.delivered) answer.error = {said.problem, said.code};
        if (said.retry_after) answer.wait_seconds = to_seconds(*said.retry_after);
        return answer;
    };
}

}  // namespace deliverd::daemon
