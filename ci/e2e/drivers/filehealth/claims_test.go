package main

import (
	"os"
	"reflect"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
)

func newDriver(cdiDir string) *driver {
	return &driver{name: "filehealth.example.com", node: "node-a", cdiDir: cdiDir, devices: []string{"gpu-0", "gpu-1"}}
}

func claimWith(uid, device string, admin bool) *resourceapi.ResourceClaim {
	result := resourceapi.DeviceRequestAllocationResult{
		Request: "gpu", Driver: "filehealth.example.com", Pool: "node-a", Device: device, AdminAccess: &admin,
	}
	devices := resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{result}}
	return &resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid)},
		Status:     resourceapi.ResourceClaimStatus{Allocation: &resourceapi.AllocationResult{Devices: devices}},
	}
}

func prepare(t *testing.T, d *driver, claim *resourceapi.ResourceClaim) kubeletplugin.PrepareResult {
	t.Helper()
	result, err := d.PrepareResourceClaims(t.Context(), []*resourceapi.ResourceClaim{claim})
	if err != nil {
		t.Fatal(err)
	}
	return result[claim.UID]
}

func TestRestartedDriverPreparesTheSameDevices(t *testing.T) {
	dir := t.TempDir()
	first := prepare(t, newDriver(dir), claimWith("one", "gpu-0", false))
	again := prepare(t, newDriver(dir), claimWith("one", "gpu-0", false))
	if first.Err != nil || !reflect.DeepEqual(first, again) {
		t.Errorf("first %+v, again %+v", first, again)
	}
}

func TestDeviceOfAnotherClaimIsRefused(t *testing.T) {
	d := newDriver(t.TempDir())
	prepare(t, d, claimWith("one", "gpu-0", false))
	if result := prepare(t, d, claimWith("two", "gpu-0", false)); result.Err == nil {
		t.Errorf("gpu-0 was prepared again: %+v", result)
	}
}

func TestAdminAccessSharesADevice(t *testing.T) {
	d := newDriver(t.TempDir())
	for _, claim := range []*resourceapi.ResourceClaim{
		claimWith("admin", "gpu-0", true), claimWith("one", "gpu-0", false), claimWith("other-admin", "gpu-0", true),
	} {
		if result := prepare(t, d, claim); result.Err != nil {
			t.Errorf("claim %s: %v", claim.UID, result.Err)
		}
	}
}

func TestUnpublishedDeviceIsRefused(t *testing.T) {
	if result := prepare(t, newDriver(t.TempDir()), claimWith("one", "gpu-9", false)); result.Err == nil {
		t.Errorf("gpu-9 was prepared: %+v", result)
	}
}

func TestRestartedDriverUnpreparesTwice(t *testing.T) {
	dir := t.TempDir()
	prepare(t, newDriver(dir), claimWith("one", "gpu-0", false))
	for range 2 {
		claims := []kubeletplugin.NamespacedObject{{UID: "one"}}
		if result, err := newDriver(dir).UnprepareResourceClaims(t.Context(), claims); err != nil || result["one"] != nil {
			t.Errorf("result %v, error %v", result, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v, error %v", left, err)
	}
}
