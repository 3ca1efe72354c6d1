package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fsnotify/fsnotify"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/klog/v2"
)

const (
	refreshInterval = 10 * time.Second
	healthTimeout   = 30 * time.Second // after this, kubelets take a device that was not refreshed for unknown
	settleTime      = 100 * time.Millisecond
	messageLimit    = 1024 // bytes
)

// healthFile is the health of all devices. It comes from lines of a file such as
//
//	gpu-0 Unhealthy XID 79
//
// A device without a line is healthy. While the file is invalid all devices are unknown.
type healthFile struct {
	path    string
	pool    string
	devices []string

	mutex   sync.Mutex
	report  kubeletplugin.DeviceHealthReport
	changed chan struct{} // closed when there is a newer report
}

func newHealthFile(path, pool string, devices []string) *healthFile {
	h := &healthFile{path: path, pool: pool, devices: devices, changed: make(chan struct{})}
	h.refresh()
	return h
}

// WatchHealthStatus sends the health of all devices: now, at each change, and every 10 seconds. Each stream gets
// every report that is the latest when the stream is ready for it.
func (d *driver) WatchHealthStatus(ctx context.Context, reports chan<- kubeletplugin.DeviceHealthReport) error {
	if d.service == "unimplemented" {
		return kubeletplugin.ErrHealthNotSupported
	}
	for {
		report, changed := d.health.latest()
		select {
		case reports <- report:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
	}
}

func (h *healthFile) latest() (kubeletplugin.DeviceHealthReport, <-chan struct{}) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	return h.report, h.changed
}

// watch reads the file in the background when it changes, and every 10 seconds, until the context ends.
func (h *healthFile) watch(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	if h.path != "" { // its directory: the file can be replaced, or come later
		if err := watcher.Add(filepath.Dir(h.path)); err != nil {
			return errors.Join(err, watcher.Close())
		}
	}
	go func() {
		defer watcher.Close()
		timer := time.NewTimer(refreshInterval)
		defer timer.Stop()
		for {
			select {
			case event := <-watcher.Events:
				if filepath.Base(event.Name) == filepath.Base(h.path) {
					timer.Reset(settleTime) // a file that is written in place is empty for a moment
				}
			case err := <-watcher.Errors:
				klog.ErrorS(err, "Cannot watch the health file")
			case <-timer.C:
				h.refresh()
				timer.Reset(refreshInterval)
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

// refresh reads the file and wakes all streams.
func (h *healthFile) refresh() {
	report := kubeletplugin.DeviceHealthReport{}
	health, err := h.read()
	if err != nil {
		klog.ErrorS(err, "The health file is invalid", "path", h.path)
	}
	for _, name := range h.devices {
		device := health[name]
		if err != nil {
			device = kubeletplugin.DeviceHealth{Health: kubeletplugin.HealthStatusUnknown, Message: limited(err.Error())}
		} else if device.Health == "" {
			device.Health = kubeletplugin.HealthStatusHealthy
		}
		device.PoolName, device.DeviceName = h.pool, name
		device.LastUpdated, device.HealthCheckTimeout = time.Now(), healthTimeout
		report.Devices = append(report.Devices, device)
	}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.report = report
	close(h.changed)
	h.changed = make(chan struct{})
}

// read has the health and message of each device that the file names. A missing file names none.
func (h *healthFile) read() (map[string]kubeletplugin.DeviceHealth, error) {
	content, err := os.ReadFile(h.path)
	if h.path == "" || errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	health := make(map[string]kubeletplugin.DeviceHealth)
	for i, line := range strings.Split(string(content), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 2 || !slices.Contains(h.devices, words[0]) {
			return nil, fmt.Errorf("line %d: it must begin with a device and its health, such as: %s Unhealthy", i+1, h.devices[0])
		}
		status := kubeletplugin.HealthStatus(words[1])
		switch status {
		case kubeletplugin.HealthStatusHealthy, kubeletplugin.HealthStatusUnhealthy, kubeletplugin.HealthStatusUnknown:
		default:
			return nil, fmt.Errorf("line %d: health must be Healthy, Unhealthy or Unknown, got %q", i+1, words[1])
		}
		health[words[0]] = kubeletplugin.DeviceHealth{Health: status, Message: limited(strings.Join(words[2:], " "))}
	}
	return health, nil
}

// limited is the text in valid UTF-8, cut to what a report can carry.
func limited(text string) string {
	text = strings.ToValidUTF8(text, "?")
	if len(text) > messageLimit {
		text = strings.ToValidUTF8(text[:messageLimit], "") // without a part of its last letter
	}
	return text
}
