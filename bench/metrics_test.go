package bench

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

func TestMetricsServe(t *testing.T) {
	m, err := serveMetrics("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + m.addr + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil || resp.StatusCode != http.StatusOK || !strings.Contains(string(body), "go_goroutines") {
		t.Errorf("%v, %v: %.200s", resp.Status, err, body)
	}
	if _, err := serveMetrics(m.addr); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("an address in use: %v", err)
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
	again, err := serveMetrics(m.addr)
	if err != nil {
		t.Fatalf("the address was not given back: %v", err)
	}
	_ = again.close()
}
