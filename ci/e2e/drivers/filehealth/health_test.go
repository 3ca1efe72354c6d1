package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

// reported is the report on gpu-0 and gpu-1 with this file.
func reported(t *testing.T, content string) []kubeletplugin.DeviceHealth {
	t.Helper()
	path := filepath.Join(t.TempDir(), "health")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	report, _ := newHealthFile(path, "node-a", []string{"gpu-0", "gpu-1"}).latest()
	return report.Devices
}

func TestDeviceWithoutALineIsHealthy(t *testing.T) {
	devices := reported(t, "# a comment\n\ngpu-1 Unhealthy XID 79\n")
	if got := devices[0]; got.DeviceName != "gpu-0" || got.Health != kubeletplugin.HealthStatusHealthy || got.Message != "" {
		t.Errorf("gpu-0: %+v", got)
	}
	if got := devices[1]; got.DeviceName != "gpu-1" || got.Health != kubeletplugin.HealthStatusUnhealthy || got.Message != "XID 79" {
		t.Errorf("gpu-1: %+v", got)
	}
}

func TestInvalidFileMakesAllDevicesUnknown(t *testing.T) {
	for _, content := range []string{"gpu-0\n", "gpu-9 Healthy\n", "gpu-0 healthy\n"} {
		for _, device := range reported(t, content) {
			if device.Health != kubeletplugin.HealthStatusUnknown || !strings.Contains(device.Message, "line 1") {
				t.Errorf("%q: %+v", content, device)
			}
		}
	}
}

func TestMessageIsCutBetweenLetters(t *testing.T) {
	message := reported(t, "gpu-0 Unhealthy x"+strings.Repeat("é", messageLimit))[0].Message
	if len(message) != messageLimit-1 || !utf8.ValidString(message) {
		t.Errorf("%d bytes, valid: %t", len(message), utf8.ValidString(message))
	}
}

func TestEachStreamGetsEachChange(t *testing.T) {
	path := filepath.Join(t.TempDir(), "health")
	d := &driver{health: newHealthFile(path, "node-a", []string{"gpu-0"})}
	streams := make([]chan kubeletplugin.DeviceHealthReport, 2)
	for i := range streams {
		streams[i] = make(chan kubeletplugin.DeviceHealthReport)
		go d.WatchHealthStatus(t.Context(), streams[i])
		<-streams[i]
	}
	if err := os.WriteFile(path, []byte("gpu-0 Unhealthy"), 0o600); err != nil {
		t.Fatal(err)
	}
	d.health.refresh()
	for i, stream := range streams {
		if report := <-stream; report.Devices[0].Health != kubeletplugin.HealthStatusUnhealthy {
			t.Errorf("stream %d: %+v", i, report)
		}
	}
}
