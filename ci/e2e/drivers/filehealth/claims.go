package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/utils/ptr"
	cdi "tags.cncf.io/container-device-interface/specs-go"
)

// Annotation of a CDI device that only its claim may use: the name of the device.
const exclusive = "exclusive"

// PrepareResourceClaims writes a CDI spec for each claim.
func (d *driver) PrepareResourceClaims(_ context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	result := make(map[types.UID]kubeletplugin.PrepareResult)
	for _, claim := range claims {
		devices, err := d.prepare(claim)
		result[claim.UID] = kubeletplugin.PrepareResult{Devices: devices, Err: err}
	}
	return result, nil
}

// UnprepareResourceClaims removes the CDI specs of the claims, also those that an earlier driver process wrote.
func (d *driver) UnprepareResourceClaims(_ context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	result := make(map[types.UID]error)
	for _, claim := range claims {
		result[claim.UID] = nil
		if err := os.Remove(d.specPath(claim.UID)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			result[claim.UID] = err
		}
	}
	return result, nil
}

// prepare depends only on the claim, so that it gives the same result again.
func (d *driver) prepare(claim *resourceapi.ResourceClaim) ([]kubeletplugin.Device, error) {
	users, err := d.users()
	if err != nil {
		return nil, err
	}
	var devices []kubeletplugin.Device
	specs := make(map[string]cdi.Device) // by name: a claim can have a device twice, with admin access
	for _, result := range claim.Status.Allocation.Devices.Results {
		if result.Driver != d.name {
			continue
		}
		if result.Pool != d.node || !slices.Contains(d.devices, result.Device) {
			return nil, fmt.Errorf("no device %s in pool %s", result.Device, result.Pool)
		}
		id := fmt.Sprintf("%s-%s", claim.UID, result.Device)
		variable := strings.ToUpper(strings.ReplaceAll(result.Device, "-", "_"))
		spec := cdi.Device{Name: id, ContainerEdits: cdi.ContainerEdits{Env: []string{variable + "=" + string(claim.UID)}}}
		if !ptr.Deref(result.AdminAccess, false) {
			if user, used := users[result.Device]; used && user != claim.UID {
				return nil, fmt.Errorf("device %s is prepared for the claim with UID %s", result.Device, user)
			}
			spec.Annotations = map[string]string{exclusive: result.Device}
		}
		if _, found := specs[id]; !found || spec.Annotations != nil {
			specs[id] = spec
		}
		devices = append(devices, kubeletplugin.Device{
			Requests:     []string{result.Request},
			PoolName:     result.Pool,
			DeviceName:   result.Device,
			ShareID:      result.ShareID,
			CDIDeviceIDs: []string{d.kind() + "=" + id},
		})
	}
	return devices, d.writeSpec(claim.UID, specs)
}

// users has the UID of the claim for each device that is prepared without admin access.
func (d *driver) users() (map[string]types.UID, error) {
	paths, err := filepath.Glob(d.specPath("*"))
	if err != nil {
		return nil, err
	}
	users := make(map[string]types.UID)
	for _, path := range paths {
		var spec cdi.Spec
		content, err := os.ReadFile(path)
		if err == nil {
			err = json.Unmarshal(content, &spec)
		}
		if err != nil {
			return nil, fmt.Errorf("read prepared claim: %w", err)
		}
		for _, device := range spec.Devices {
			if name, found := device.Annotations[exclusive]; found {
				users[name] = types.UID(strings.TrimSuffix(device.Name, "-"+name))
			}
		}
	}
	return users, nil
}

// writeSpec replaces the CDI spec of the claim in one step: a reader never sees half of it.
func (d *driver) writeSpec(claim types.UID, devices map[string]cdi.Device) error {
	spec := cdi.Spec{Kind: d.kind()}
	for _, device := range devices {
		spec.Devices = append(spec.Devices, device)
	}
	slices.SortFunc(spec.Devices, func(a, b cdi.Device) int { return strings.Compare(a.Name, b.Name) })
	version, err := cdi.MinimumRequiredVersion(&spec)
	if err != nil {
		return fmt.Errorf("find CDI version: %w", err)
	}
	spec.Version = version
	content, err := json.MarshalIndent(spec, "", "  ")
	if err != nil {
		return fmt.Errorf("encode CDI spec: %w", err)
	}
	temporary := d.specPath(claim) + ".tmp"
	if err := os.WriteFile(temporary, content, 0o644); err != nil {
		return fmt.Errorf("write CDI spec: %w", err)
	}
	return os.Rename(temporary, d.specPath(claim))
}

func (d *driver) kind() string {
	return d.name + "/gpu"
}

func (d *driver) specPath(claim types.UID) string {
	return filepath.Join(d.cdiDir, fmt.Sprintf("%s-%s.json", d.name, claim))
}
