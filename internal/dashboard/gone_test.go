package dashboard

import (
	"net/url"
	"strings"
	"testing"
)

// The page of an origin that a full listing lacks names the listing, and what brings the origin back. An origin of
// another lister with the same URL stays as it is.
func TestGoneOriginIsShown(t *testing.T) {
	t.Parallel()
	const gone = "https://a.example/user/repository"
	s := newSite(t, nil,
		"insert into task_type (type, description, backend_name) values ('load-git', '', 'swh.git')",
		`insert into listers (id, name, instance_name, current_state, updated) values
			('00000000-0000-4000-8000-000000000001', 'gitweb', 'a.example', '{}', now()), ('00000000-0000-4000-8000-000000000002', 'gnu', '', '{}', now())`,
		`insert into listed_origins (lister_id, url, visit_type, extra_loader_arguments, enabled, last_seen) values
			('00000000-0000-4000-8000-000000000001', '`+gone+`', 'git', '{}', false, '2024-01-01Z'),
			('00000000-0000-4000-8000-000000000002', '`+gone+`', 'git', '{}', true, '2024-01-01Z')`,
		`insert into scheduler_go.gone_origins (lister_id, url, visit_type, ended, disabled)
			values ('00000000-0000-4000-8000-000000000001', '`+gone+`', 'git', '2024-01-03T03:04:05Z', '2024-01-03T03:06:00Z')`,
	)
	page := "/origin?url=" + url.QueryEscape(gone)
	const why = "It was not in the listing that ended at 2024-01-03"
	body := s.has(page, `git <span class="bad">disabled</span>`, "It is disabled: no visit of it is scheduled until its lister sees it again.", why, "it was disabled at 2024-01-03", "gone_origins")
	if strings.Count(body, why) != 1 || strings.Count(body, "disabled</span>") != 1 {
		t.Errorf("the origin of the other lister is said to be gone:\n%s", body)
	}
	s.exec("update listed_origins set enabled = true, last_seen = now()") // listed again
	if body := s.get(page); strings.Contains(body, why) || strings.Contains(body, "disabled</span>") {
		t.Errorf("it is said to be gone though it is listed again:\n%s", body)
	}
}
