// Command filehealth is a small DRA driver that uses the upstream package k8s.io/dynamic-resource-allocation/kubeletplugin.
// Its devices are made up: gpu-0, gpu-1, and so on, in a pool that is named after the node. Their health comes from a
// file (see health.go).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"
)

const taintKey = "filehealth.example.com/unhealthy"

// driver implements kubeletplugin.DRAPlugin. What it has prepared is in the CDI specs, not in memory: a restarted
// driver continues where the last one ended.
type driver struct {
	name    string
	node    string
	cdiDir  string
	devices []string
	service string // the option --health-service
	taints  bool   // the option --taints
	podUID  types.UID
	health  *healthFile
	stop    context.CancelCauseFunc
}

var _ kubeletplugin.DRAPlugin = &driver{}

func main() {
	klog.InitFlags(nil)
	name := flag.String("driver-name", "filehealth.example.com", "name of the driver")
	node := flag.String("node-name", os.Getenv("NODE_NAME"), "name of the node; default: $NODE_NAME")
	kubeconfig := flag.String("kubeconfig", os.Getenv("KUBECONFIG"), "kubeconfig; default: $KUBECONFIG, or in a Pod its service account")
	pluginDir := flag.String("plugin-dir", "", "directory of dra.sock; default: the driver's directory in "+kubeletplugin.KubeletPluginsDir)
	registrarDir := flag.String("registrar-dir", kubeletplugin.KubeletRegistryDir, "directory in which the kubelet looks for drivers")
	cdiDir := flag.String("cdi-dir", "/var/run/cdi", "directory of CDI specs")
	healthPath := flag.String("health-file", "", "file with lines such as: gpu-0 Unhealthy XID 79; default: all devices are healthy")
	service := flag.String("health-service", "on", "on, off (not advertised), or unimplemented (advertised, but not supported)")
	podUID := flag.String("pod-uid", os.Getenv("POD_UID"), "UID of the Pod, which enables rolling updates; default: $POD_UID")
	taints := flag.Bool("taints", false, "taint devices that are not healthy: "+taintKey+", NoSchedule")
	count := flag.Int("devices", 4, "number of devices")
	flag.Parse()
	if *node == "" || *count < 1 || flag.NArg() > 0 || !slices.Contains([]string{"on", "off", "unimplemented"}, *service) {
		fmt.Fprintln(os.Stderr, "filehealth: pass --node-name NAME, --devices 1 or more, a valid --health-service, and no arguments")
		os.Exit(2)
	}
	if *pluginDir == "" {
		*pluginDir = filepath.Join(kubeletplugin.KubeletPluginsDir, *name)
	}

	d := &driver{name: *name, node: *node, cdiDir: *cdiDir, service: *service, taints: *taints, podUID: types.UID(*podUID)}
	for i := range *count {
		d.devices = append(d.devices, fmt.Sprintf("gpu-%d", i))
	}
	d.health = newHealthFile(*healthPath, *node, d.devices)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := d.run(ctx, *kubeconfig, *pluginDir, *registrarDir); err != nil {
		klog.ErrorS(err, "The driver has failed")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}

// run serves until the context ends (nil), or until the driver fails.
func (d *driver) run(ctx context.Context, kubeconfig, pluginDir, registrarDir string) error {
	ctx, d.stop = context.WithCancelCause(ctx)
	defer d.stop(nil)
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read kubeconfig: %w", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create client: %w", err)
	}
	if pluginDir, err = filepath.Abs(pluginDir); err != nil { // kubelets reject an endpoint that is not absolute
		return fmt.Errorf("find plugin directory: %w", err)
	}
	for _, dir := range []string{pluginDir, d.cdiDir} {
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return fmt.Errorf("create directory: %w", err)
		}
	}
	if err := d.health.watch(ctx); err != nil {
		return fmt.Errorf("watch health file: %w", err)
	}
	helper, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.DriverName(d.name),
		kubeletplugin.NodeName(d.node),
		kubeletplugin.KubeClient(client),
		kubeletplugin.RegistrarDirectoryPath(registrarDir),
		kubeletplugin.PluginDataDirectoryPath(pluginDir),
		kubeletplugin.HealthService(d.service != "off"),
		kubeletplugin.RollingUpdate(d.podUID),
	)
	if err != nil {
		return fmt.Errorf("start helper: %w", err)
	}
	defer helper.Stop()
	for ctx.Err() == nil {
		report, changed := d.health.latest()
		if err := helper.PublishResources(ctx, d.resources(report)); err != nil {
			return fmt.Errorf("publish resources: %w", err)
		}
		if !d.taints { // what is published never changes
			changed = nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
	if cause := context.Cause(ctx); !errors.Is(cause, context.Canceled) {
		return cause
	}
	return nil
}

// resources has all devices in one slice of one pool. The helper writes it only if it differs from the published one.
func (d *driver) resources(report kubeletplugin.DeviceHealthReport) resourceslice.DriverResources {
	var slice resourceslice.Slice
	for _, one := range report.Devices {
		device := resourceapi.Device{Name: one.DeviceName}
		if d.taints && one.Health != kubeletplugin.HealthStatusHealthy {
			device.Taints = []resourceapi.DeviceTaint{{Key: taintKey, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		slice.Devices = append(slice.Devices, device)
	}
	pool := resourceslice.Pool{Slices: []resourceslice.Slice{slice}}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.node: pool}}
}

// HandleError logs an error of the helper. It ends the driver unless the helper retries.
func (d *driver) HandleError(ctx context.Context, err error, msg string) {
	runtime.HandleErrorWithContext(ctx, err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.stop(fmt.Errorf("%s: %w", msg, err))
	}
}
